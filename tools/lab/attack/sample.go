package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// sample is what a server holds at a time.
type sample struct{ descriptors, goroutines, versions, server, workers float64 }

// get asks for a page on a connection of its own.
func (s *soak) get(ctx context.Context, path string) ([]byte, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.server.http+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	q.Close = true
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return text, err
}

func (s *soak) probe(ctx context.Context) {
	began := time.Now()
	if _, err := s.get(ctx, "/healthz"); err != nil {
		if ctx.Err() == nil {
			s.lose(err)
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probes = append(s.probes, float64(time.Since(began))/float64(time.Millisecond))
}

// sample looks at what the server holds, and prints it.
func (s *soak) sample(ctx context.Context) {
	page, err := s.get(ctx, "/metrics")
	if err != nil {
		if ctx.Err() == nil {
			s.lose(err)
		}
		return
	}
	u := useOf(s.server.pid())
	now := sample{
		goroutines: metric(page, "go_goroutines"), versions: metric(page, `weft_models{state="ready"}`), server: u.server,
		workers: u.workers,
	}
	if p, err := procfs.NewProc(s.server.pid()); err == nil {
		n, _ := p.FileDescriptorsLen() // 0 of one that has ended
		now.descriptors = float64(n)
	}
	s.samples = append(s.samples, now)
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, "%3d: %.0f descriptors, %.0f goroutines, %.0f + %.0f MiB, %.0f versions of %d, %d episodes, "+
		"%d steps, %d kills, %d lost\n", len(s.samples), now.descriptors, now.goroutines, now.server, now.workers,
		now.versions, s.versions, s.episodes, s.steps, s.kills, len(s.lost))
}

// metric returns the value of a series, 0 if there is none.
func metric(page []byte, series string) float64 {
	for line := range strings.Lines(string(page)) {
		if value, is := strings.CutPrefix(line, series+" "); is {
			n, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return n
		}
	}
	return 0
}
