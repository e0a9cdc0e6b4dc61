package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	startTime = time.Minute // within which a server must be ready
	stopTime  = 15 * time.Second
)

// usualPorts are those of a server without flags, so that commands need none either.
var usualPorts = [3]string{"127.0.0.1:9000", "127.0.0.1:9001", "127.0.0.1:9002"}

// server is a server that runs as a process of its own.
type server struct {
	grpc, http, admin string
	usual             bool // the ports are
	weft, log         string
	cmd               *exec.Cmd
	read              chan struct{} // closed once its log has ended
}

// announcement is a line of a server's log that says where it listens.
type announcement struct {
	Event string `json:"event"`
	GRPC  string `json:"grpc"`
	HTTP  string `json:"http"`
	Admin string `json:"admin"`
}

// serve starts a server, and returns when its models are ready. It runs one batch at a time, as a GPU does: so it shows
// how models share a device.
func serve(ctx context.Context, o *options, folder string) (*server, error) {
	s := &server{weft: o.weft, log: filepath.Join(folder, "server.log"), read: make(chan struct{})}
	ports := usualPorts
	if s.usual = o.ports == "usual" && unused(ports[:]); !s.usual {
		ports = [3]string{"127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"}
	}
	s.cmd = exec.CommandContext(ctx, o.weft, "serve", filepath.Join(folder, "models"), "--devices", "cpu:1",
		"--listen", ports[0], "--http", ports[1], "--admin-listen", ports[2], "--state-dir", filepath.Join(folder, "state"),
		"--log-format", "json")
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for this program, which stops the server in order
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(syscall.SIGTERM) }
	s.cmd.WaitDelay = stopTime
	output, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: build it with `make build`, or name it with --weft", errors.Join(err, log.Close()))
	}
	said := make(chan announcement)
	go func() {
		defer close(s.read)
		defer log.Close()
		follow(output, log, said)
	}()
	return s, s.await(ctx, said)
}

// await returns when the server is ready.
func (s *server) await(ctx context.Context, said <-chan announcement) error {
	late := time.After(startTime)
	for {
		select {
		case a, is := <-said:
			if !is {
				return errors.Join(fmt.Errorf("the server ended before it was ready; its log ends with\n%s", s.tail()), s.stop())
			}
			switch a.Event {
			case "http_listening":
				s.http = a.HTTP
			case "admin_listening":
				s.admin = a.Admin
			case "ready":
				s.grpc = a.GRPC
				go func() {
					for range said { // the rest says nothing of addresses
					}
				}()
				return nil
			}
		case <-late:
			return errors.Join(fmt.Errorf("the server was not ready within %v; its log ends with\n%s", startTime, s.tail()),
				s.stop())
		case <-ctx.Done():
			return errors.Join(errors.New("interrupted while the server started"), s.stop())
		}
	}
}

// unused reports whether nobody listens on the addresses.
func unused(addresses []string) bool {
	for _, a := range addresses {
		l, err := net.Listen("tcp", a) //nolint:noctx // it neither waits nor resolves names
		if err != nil {
			return false
		}
		_ = l.Close() // it served nothing
	}
	return true
}

// follow copies a server's log until its end, and sends what it says of its addresses. It closes said.
func follow(output io.Reader, log io.Writer, said chan<- announcement) {
	defer close(said)
	var err error
	for lines := bufio.NewReader(output); err == nil; {
		var line []byte
		line, err = lines.ReadBytes('\n')
		_, _ = log.Write(line) // without it the demo is as good
		var a announcement
		if json.Unmarshal(line, &a) == nil && a.Event != "" {
			said <- a
		}
	}
}

// tail returns the last lines of the log.
func (s *server) tail() string {
	data, _ := os.ReadFile(s.log) // it may say nothing
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-10):], []byte("\n")))
}

// stop ends the server.
func (s *server) stop() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // fails if it has ended, which Wait reports
	kill := time.AfterFunc(stopTime, func() { _ = s.cmd.Process.Kill() })
	defer kill.Stop()
	<-s.read
	if err := s.cmd.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("the server: %w; its log ends with\n%s", err, s.tail())
	}
	return nil
}
