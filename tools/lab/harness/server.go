// Package harness runs servers as processes of their own for the programs of the laboratory: it starts them, waits
// until they are ready, reads what they say and hold, and writes down what was found.
package harness

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/weftserve/weft/tools/lab/affinity"
)

// Options say how a server is started.
type Options struct {
	Program     string
	Args        []string // such as those of Serve
	Environment []string // besides that of this program
	Log         string   // the file that its log is copied to
	// Line, if there is one, is called with each line of the log, one at a time.
	Line  func(line []byte)
	CPUs  []int         // the processors that it runs on, before others; nil: all, like others
	Apart bool          // Ctrl-C at a terminal does not reach it
	Load  time.Duration // within which it must be ready; 0: a minute
	Stop  time.Duration // after which it is killed if it has not stopped; 0: 20 seconds
}

// Serve returns the arguments that have weft serve a repository on free ports, and nothing outlast it. Of a flag that
// stands there twice the last counts.
func Serve(repository string, flags ...string) []string {
	return append([]string{
		"serve", repository, "--listen=127.0.0.1:0", "--http=127.0.0.1:0", "--admin-listen=127.0.0.1:0",
		"--state-dir=none", "--lame-duck=0s", "--log-format=json",
	}, flags...)
}

// Server is a server in a process of its own.
type Server struct {
	GRPC, HTTP, Admin string // HOST:PORT; "" of an address that it has not

	log   string
	stop  time.Duration
	cmd   *exec.Cmd
	ended chan struct{} // closed once its log has ended
}

// Start starts a server, and returns when it is ready. It stops when ctx ends, or at Stop, which must be called.
func Start(ctx context.Context, o Options) (*Server, error) {
	s := &Server{log: o.Log, stop: cmp.Or(o.Stop, 20*time.Second), ended: make(chan struct{})}
	s.cmd = exec.CommandContext(ctx, o.Program, o.Args...)
	s.cmd.Env = append(os.Environ(), o.Environment...)
	EndWithParent(s.cmd)
	s.cmd.SysProcAttr.Setpgid = o.Apart
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(syscall.SIGTERM) }
	s.cmd.WaitDelay = s.stop
	output, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(o.Log)
	if err != nil {
		return nil, err
	}
	start := s.cmd.Start
	if o.CPUs != nil {
		start = func() error { return affinity.Start(o.CPUs, affinity.Foremost, s.cmd.Start) }
	}
	if err := start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	ready := make(chan struct{})
	go func() {
		defer close(s.ended)
		defer log.Close()
		s.follow(output, log, o.Line, sync.OnceFunc(func() { close(ready) }))
	}()
	load := cmp.Or(o.Load, time.Minute)
	select {
	case <-ready:
		return s, nil
	case <-s.ended:
		err = fmt.Errorf("the server ended before it was ready: %s", s.Tail())
	case <-time.After(load):
		err = fmt.Errorf("the server was not ready within %v: %s", load, s.Tail())
	case <-ctx.Done():
		err = errors.New("interrupted while the server started")
	}
	return nil, errors.Join(err, s.Stop())
}

// follow copies a server's log until its end. It notes the addresses, and calls ready when the server is.
func (s *Server) follow(output io.Reader, log io.Writer, look func([]byte), ready func()) {
	var err error
	is := false
	for lines := bufio.NewReader(output); err == nil; {
		var line []byte
		line, err = lines.ReadBytes('\n')
		_, _ = log.Write(line) // without it all else is as good
		if look != nil && len(line) > 0 {
			look(line)
		}
		var said struct{ Event, GRPC, HTTP, Admin string }
		if is || json.Unmarshal(line, &said) != nil {
			continue
		}
		switch said.Event {
		case "http_listening":
			s.HTTP = said.HTTP
		case "admin_listening":
			s.Admin = said.Admin
		case "ready":
			s.GRPC, is = said.GRPC, true
			ready()
		}
	}
}

// Tail says where the log is, and how it ends.
func (s *Server) Tail() string {
	data, _ := os.ReadFile(s.log) // it may say nothing
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	return fmt.Sprintf("see %s, which ends with\n%s", s.log, bytes.Join(lines[max(0, len(lines)-10):], []byte("\n")))
}

// PID is the number of the server's process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Ended is closed once the server has ended.
func (s *Server) Ended() <-chan struct{} { return s.ended }

// Died reports whether the server has ended by itself.
func (s *Server) Died() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// Stop ends the server. The error says how it ended, if not orderly.
func (s *Server) Stop() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // fails if it has ended, which Wait reports
	kill := time.AfterFunc(s.stop, func() { _ = s.cmd.Process.Kill() })
	defer kill.Stop()
	<-s.ended
	if err := s.cmd.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("the server ended with %w: %s", err, s.Tail())
	}
	return nil
}
