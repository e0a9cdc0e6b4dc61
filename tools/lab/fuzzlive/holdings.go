package main

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/weftserve/weft/tools/lab/harness"
)

// holdings are what a server holds when nothing is asked of it.
type holdings struct {
	goroutines, lines int   // lines: of its metrics
	objects           int64 // in the heap, after a collection
	heap, own, rss    int64 // bytes: of those objects, and resident in the server alone and with its processes
}

const mebibyte = 1 << 20

func (h holdings) String() string {
	return fmt.Sprintf(
		"%d goroutines, %d lines of metrics, %d objects of %.1f MiB, %.1f MiB resident, %.1f with processes",
		h.goroutines, h.lines, h.objects, float64(h.heap)/mebibyte, float64(h.own)/mebibyte, float64(h.rss)/mebibyte)
}

// Room for what is not a leak: caches that fill, the allocator's and the collector's freedom, timers that run out, and
// the latest requests that the live page tells of, which are few objects of 26 MiB.
const (
	roomGoroutines = 8
	roomLines      = 24 // such as of the first execution that failed, or of a code that is rare
	roomObjects    = 8000
	roomHeap       = 32 * mebibyte
	roomRSS        = 64 * mebibyte
)

// most and least of several are those of each number that grown compares.
func extreme(of []holdings, least bool) holdings {
	out := of[0]
	for _, h := range of[1:] {
		if least {
			h.goroutines, h.objects = min(out.goroutines, h.goroutines), min(out.objects, h.objects)
			h.heap, h.rss = min(out.heap, h.heap), min(out.rss, h.rss)
		} else {
			h.goroutines, h.objects = max(out.goroutines, h.goroutines), max(out.objects, h.objects)
			h.heap, h.rss = max(out.heap, h.heap), max(out.rss, h.rss)
		}
		out = h
	}
	return out
}

// grown says what a server holds too much of: it compares the most of the first tenth with the least of the last.
func grown(all []holdings) error {
	tenth := max(1, len(all)/10)
	first, last := extreme(all[:tenth], false), extreme(all[len(all)-tenth:], true)
	if last.goroutines > first.goroutines+roomGoroutines || last.objects > first.objects+first.objects/4+roomObjects ||
		last.heap > first.heap+first.heap/4+roomHeap ||
		last.rss > first.rss+first.rss/4+roomRSS {
		return fmt.Errorf("the server holds more and more: at most %v in the first tenth, at least %v in the last",
			first, last)
	}
	return nil
}

// piled says what a server has kept of names that it was told once: it compares what it holds at the end with what it
// held after a quarter of them.
func piled(all []holdings) error {
	quarter, last := all[(len(all)-1)/4], all[len(all)-1]
	if last.lines > quarter.lines+roomLines || last.objects > quarter.objects+roomObjects {
		return fmt.Errorf("the server keeps names: %v after a quarter of them, %v at the end", quarter, last)
	}
	return nil
}

var (
	goroutineCount = regexp.MustCompile(`^goroutine profile: total (\d+)`)
	heapInUse      = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)`)
	heapObjects    = regexp.MustCompile(`(?m)^# HeapObjects = (\d+)`)
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
	const heapPage = "/debug/pprof/heap?gc=1&debug=1"
	for range 3 { // pools let go of what nobody uses in the second collection
		if h.heap, err = s.number(ctx, heapPage, heapInUse); err != nil {
			return h, err
		}
	}
	if h.objects, err = s.number(ctx, heapPage, heapObjects); err != nil {
		return h, err
	}
	metrics, err := s.Get(ctx, "/metrics")
	if err != nil {
		return h, err
	}
	h.lines = bytes.Count(metrics, []byte("\n"))
	for i, p := range harness.Family(s.PID()) {
		stat, _ := p.Stat() // 0 of one that has ended
		h.rss += int64(stat.ResidentMemory())
		if i == 0 {
			h.own = h.rss
		}
	}
	return h, nil
}

// number fetches a page and returns the number that an expression finds.
func (s *server) number(ctx context.Context, path string, find *regexp.Regexp) (int64, error) {
	page, err := s.Get(ctx, path)
	if err != nil {
		return 0, err
	}
	m := find.FindSubmatch(page)
	if m == nil {
		return 0, fmt.Errorf("%s does not say %v", path, find)
	}
	return strconv.ParseInt(string(m[1]), 10, 64)
}
