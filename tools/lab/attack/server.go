package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/weftserve/weft/tools/lab/affinity"
)

const (
	loadTime = time.Minute // within which a server must be ready
	stopTime = 20 * time.Second
)

// server is the Weft server that is attacked.
type server struct {
	address string
	http    string
	log     string
	cmd     *exec.Cmd
	ended   chan struct{} // closed once its log has ended
}

// serve starts a server on some processors, with its models and its log in a folder, and returns when it is ready.
func serve(ctx context.Context, weft, folder string, cpus []int, flags ...string) (*server, error) {
	repository := filepath.Join(folder, "models")
	if err := writeModels(repository); err != nil {
		return nil, err
	}
	s := &server{log: filepath.Join(folder, "server.log"), ended: make(chan struct{})}
	s.cmd = exec.CommandContext(ctx, weft, append([]string{
		"serve", repository, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--admin-listen", "",
		"--state-dir", "none", "--watch-interval", "0s", "--log-format", "json",
	}, flags...)...)
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(syscall.SIGTERM) }
	s.cmd.WaitDelay = stopTime
	endWithParent(s.cmd)
	output, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	if err := affinity.Start(cpus, affinity.Foremost, s.cmd.Start); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	ready := make(chan [2]string, 1)
	go func() {
		defer close(s.ended)
		defer log.Close()
		follow(output, log, ready)
	}()
	select {
	case at := <-ready:
		s.address, s.http = at[0], at[1]
		return s, nil
	case <-s.ended:
		return nil, errors.Join(fmt.Errorf("the server ended before it was ready: see %s", s.log), s.stop())
	case <-time.After(loadTime):
		return nil, errors.Join(fmt.Errorf("the server was not ready within %v: see %s", loadTime, s.log), s.stop())
	}
}

// follow copies a server's log until its end, and sends where it listens: for gRPC, and for HTTP.
func follow(output io.Reader, log io.Writer, ready chan<- [2]string) {
	var err error
	http := ""
	for lines := bufio.NewReader(output); err == nil; {
		var line []byte
		line, err = lines.ReadBytes('\n')
		_, _ = log.Write(line) // without it the figures are as good
		var said struct{ Event, GRPC, HTTP string }
		if json.Unmarshal(line, &said) != nil {
			continue
		}
		if http = cmp.Or(said.HTTP, http); said.Event == "ready" {
			ready <- [2]string{said.GRPC, http}
		}
	}
}

func (s *server) pid() int { return s.cmd.Process.Pid }

// died reports whether the server has ended by itself.
func (s *server) died() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// stop ends the server. The error says how it ended, if not orderly.
func (s *server) stop() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // fails if it has ended, which Wait reports
	kill := time.AfterFunc(stopTime, func() { _ = s.cmd.Process.Kill() })
	defer kill.Stop()
	<-s.ended
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("the server: %w: see %s", err, s.log)
	}
	return nil
}
