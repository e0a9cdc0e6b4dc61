package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/weftserve/weft/tools/lab/harness"
)

// repeat does something again and again, so often.
func repeat(ctx context.Context, every time.Duration, do func(context.Context)) {
	beats := time.NewTicker(every)
	defer beats.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beats.C:
			do(ctx)
		}
	}
}

// hold keeps a connection of HTTP for as long as the server does: with a body that comes slowly, or an activity that
// nobody reads.
func (s *soak) hold(ctx context.Context, number int) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.server.HTTP)
	if err != nil {
		return
	}
	defer conn.Close()
	text := "POST /v2/models/" + policyName + "/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n"
	if number%2 == 0 {
		text = "GET /live/activity HTTP/1.1\r\nHost: localhost\r\n\r\n"
	}
	_, err = io.WriteString(conn, text)
	const most = 60 // seconds
	for beats := time.NewTicker(time.Second); err == nil && number < 128*most; number += 128 {
		select {
		case <-ctx.Done():
			beats.Stop()
			return
		case <-beats.C:
		}
		if number%2 == 1 {
			_, err = conn.Write([]byte(" "))
		}
	}
}

// swap puts a new version into the place of the oldest, and begins an episode that will not end.
func (s *soak) swap(ctx context.Context) {
	s.mu.Lock()
	s.versions++
	n := s.versions
	s.episodes++
	s.mu.Unlock()
	dir := filepath.Join(s.folder, "models", policyName)
	file, err := os.ReadFile(filepath.Join(dir, strconv.FormatInt(n-1, 10), "model.onnx"))
	next := filepath.Join(s.folder, "next")
	if err == nil {
		err = errors.Join(os.MkdirAll(next, 0o755), os.WriteFile(filepath.Join(next, "model.onnx"), file, 0o644),
			os.Rename(next, filepath.Join(dir, strconv.FormatInt(n, 10))),
			os.RemoveAll(filepath.Join(dir, strconv.FormatInt(n-keptBack, 10))))
	}
	if err != nil {
		s.lose(fmt.Errorf("version %d: %w", n, err))
	}
	s.endless.Go(func() { s.episode(ctx, fmt.Sprint("endless ", n)) })
}

// episode goes on until the soak is over.
func (s *soak) episode(ctx context.Context, id string) {
	repeat(ctx, stepEvery, func(ctx context.Context) {
		q := policyRequest()
		q.EpisodeId = id
		_, err := s.client.Predict(ctx, q)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.lose(fmt.Errorf("%s: %w", id, err))
			return
		}
		s.mu.Lock()
		s.steps++
		s.mu.Unlock()
	})
}

func (s *soak) lose(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = append(s.lost, err.Error())
}

// kill ends the largest worker.
func (s *soak) kill(context.Context) {
	var largest *os.Process
	size := 0
	for _, p := range harness.Family(s.server.PID()) { // without any nobody is killed, which the result says
		if stat, err := p.Stat(); err == nil && p.PID != s.server.PID() && stat.ResidentMemory() > size {
			size = stat.ResidentMemory()
			largest, _ = os.FindProcess(p.PID)
		}
	}
	if largest != nil && largest.Kill() == nil {
		s.mu.Lock()
		s.kills++
		s.mu.Unlock()
	}
}
