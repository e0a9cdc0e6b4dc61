package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	loadTime = time.Minute // within which the server must be ready
	stopTime = 40 * time.Second
)

// server is the process that is fuzzed.
type server struct {
	command           *exec.Cmd
	grpc, admin, http string
	ended             chan struct{} // closed once its log has ended

	mu     sync.Mutex
	faults []string // guarded by mu: what it logged and should not have
	lines  int      // guarded by mu
}

// record is what is read of a line of the log.
type record struct{ Level, Event, GRPC, HTTP, Admin string }

// serve starts a server of the repository, with an access file and more of an environment, and returns when it is
// ready.
func serve(ctx context.Context, program, repository, access string, environment ...string) (*server, error) {
	s := &server{ended: make(chan struct{})}
	s.command = exec.CommandContext(ctx, program, "serve", repository, "--listen=127.0.0.1:0", "--http=127.0.0.1:0",
		"--admin-listen=127.0.0.1:0", "--pprof", "--log-format=json", "--state-dir=none", "--max-episodes=1000",
		"--shared-memory", "--access="+access)
	s.command.Env = append(os.Environ(), environment...)
	s.command.Cancel = func() error { return s.command.Process.Signal(syscall.SIGTERM) }
	s.command.WaitDelay = stopTime
	log, err := s.command.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.command.Start(); err != nil {
		return nil, err
	}
	ready := make(chan struct{})
	go s.follow(log, sync.OnceFunc(func() { close(ready) }))
	select {
	case <-ready:
		return s, nil
	case <-s.ended:
		err = errors.New("the server ended before it was ready")
	case <-time.After(loadTime):
		err = fmt.Errorf("the server was not ready within %v", loadTime)
	}
	return nil, errors.Join(err, s.stop(), s.fault())
}

// follow reads the log until its end.
func (s *server) follow(log io.Reader, ready func()) {
	defer close(s.ended)
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		s.take(line, ready)
	}
}

// harmful are events that no caller may cause. That a version stalls is none of them: on a busy machine a run may take
// a second, and one that hangs ends its worker.
var harmful = []string{
	"request_panicked", "run_panicked", "shadow_panicked", "worker_died", "request_crashed", "version_taken_out",
	"version_demoted", "worker_output", "request_untried", "device_lost", "stopping",
}

func (s *server) take(line string, ready func()) {
	var r record
	err := json.Unmarshal([]byte(line), &r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines++
	// What is no record comes from a library, or from a process that dies.
	if err != nil || r.Event == "" || r.Level == "ERROR" || slices.Contains(harmful, r.Event) {
		if len(s.faults) < 50 {
			s.faults = append(s.faults, strings.TrimSpace(line))
		}
	}
	switch r.Event {
	case "http_listening":
		s.http = r.HTTP
	case "admin_listening":
		s.admin = r.Admin
	case "ready":
		s.grpc = r.GRPC
		ready()
	}
}

// fault returns what the server logged and should not have.
func (s *server) fault() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.faults) == 0 {
		return nil
	}
	return fmt.Errorf("the server logged:\n%s", strings.Join(s.faults, "\n"))
}

// alive reports whether the process lives.
func (s *server) alive() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// stop ends the server, in order.
func (s *server) stop() error {
	s.mu.Lock()
	before := len(s.faults)
	s.mu.Unlock()
	_ = s.command.Process.Signal(syscall.SIGTERM) // fails if it has ended, which Wait reports
	kill := time.AfterFunc(stopTime, func() { _ = s.command.Process.Kill() })
	defer kill.Stop()
	<-s.ended
	err := s.command.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	// That it stops is no fault now.
	after := slices.DeleteFunc(s.faults[before:], func(l string) bool { return strings.Contains(l, `"event":"stopping"`) })
	s.faults = s.faults[:before+len(after)]
	if err != nil {
		return fmt.Errorf("the server ended with: %w", err)
	}
	return nil
}
