package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// holdings are what a server holds when nothing is asked of it.
type holdings struct {
	goroutines int
	heap, rss  int64 // bytes; the heap after a collection, and the memory of the server and its processes
}

const mebibyte = 1 << 20

func (h holdings) String() string {
	return fmt.Sprintf("%d goroutines, %.1f MiB of heap, %.1f MiB resident", h.goroutines,
		float64(h.heap)/mebibyte, float64(h.rss)/mebibyte)
}

// Room for what is not a leak: caches that fill, the allocator's and the collector's freedom, timers that run out.
const (
	roomGoroutines = 8
	roomHeap       = 4 * mebibyte
	roomRSS        = 48 * mebibyte
)

// most and least of several are those of each number.
func extreme(of []holdings, least bool) holdings {
	out := of[0]
	for _, h := range of[1:] {
		if least {
			out = holdings{min(out.goroutines, h.goroutines), min(out.heap, h.heap), min(out.rss, h.rss)}
		} else {
			out = holdings{max(out.goroutines, h.goroutines), max(out.heap, h.heap), max(out.rss, h.rss)}
		}
	}
	return out
}

// grown says what a server holds too much of: it compares the most of the first tenth with the least of the last.
func grown(all []holdings) error {
	tenth := max(1, len(all)/10)
	first, last := extreme(all[:tenth], false), extreme(all[len(all)-tenth:], true)
	if last.goroutines > first.goroutines+roomGoroutines || last.heap > first.heap+first.heap/4+roomHeap ||
		last.rss > first.rss+first.rss/4+roomRSS {
		return fmt.Errorf("the server holds more and more: at most %v in the first tenth, at least %v in the last",
			first, last)
	}
	return nil
}

var (
	goroutineCount = regexp.MustCompile(`^goroutine profile: total (\d+)`)
	heapInUse      = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)`)
)

// hold looks at what the server holds. What ends by itself, such as connections that were just closed, has time to.
func (s *server) hold(ctx context.Context) (h holdings, err error) {
	const settle = 50 * time.Millisecond
	for before := -1; ; before = h.goroutines {
		n, err := s.number(ctx, "/debug/pprof/goroutine?debug=1", goroutineCount)
		if err != nil {
			return h, err
		}
		if h.goroutines = int(n); h.goroutines == before {
			break
		}
		select {
		case <-time.After(settle):
		case <-ctx.Done():
			return h, ctx.Err()
		}
	}
	for range 3 { // pools let go of what nobody uses in the second collection
		if h.heap, err = s.number(ctx, "/debug/pprof/heap?gc=1&debug=1", heapInUse); err != nil {
			return h, err
		}
	}
	for _, pid := range append(children(s.command.Process.Pid), s.command.Process.Pid) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if fields := strings.Fields(string(text)); err == nil && len(fields) > 1 {
			pages, _ := strconv.ParseInt(fields[1], 10, 64)
			h.rss += pages * int64(os.Getpagesize())
		}
	}
	return h, nil
}

// number fetches a page and returns the number that an expression finds.
func (s *server) number(ctx context.Context, path string, find *regexp.Regexp) (int64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.http+path, http.NoBody)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err
	}
	m := find.FindSubmatch(page)
	if m == nil {
		return 0, fmt.Errorf("%s does not say %v", path, find)
	}
	return strconv.ParseInt(string(m[1]), 10, 64)
}

// children returns the processes that a process has started, on Linux.
func children(parent int) (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ") // from its state on
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			pids = append(pids, pid)
		}
	}
	return pids
}
