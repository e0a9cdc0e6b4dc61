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
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/weftserve/weft/tools/lab/affinity"
)

const (
	loadTime = time.Minute // within which a server must be ready
	stopTime = 20 * time.Second
)

// announcement is a line of a server's log that says where it listens.
type announcement struct {
	Event string `json:"event"`
	GRPC  string `json:"grpc"`
	HTTP  string `json:"http"`
}

const (
	readyEvent = "ready" // with GRPC
	httpEvent  = "http_listening"
)

// server is a process that answers.
type server struct {
	name    string // what it is called in the tables
	address string
	http    string // where its metrics are; "" of the echoes
	cmd     *exec.Cmd
	read    chan struct{} // closed once its log has ended
	log     string
}

// serve starts a server on some processors, with its log in a folder, and returns when it is ready.
func serve(ctx context.Context, name, folder string, cpus []int, program string, args ...string) (*server, error) {
	s := &server{
		name: name, read: make(chan struct{}),
		log: filepath.Join(folder, strings.ReplaceAll(name, " ", "-")+".log"),
	}
	s.cmd = exec.CommandContext(ctx, program, args...)
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
	if err := affinity.Start(cpus, affinity.Foremost, s.cmd.Start); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), log.Close())
	}
	ready := make(chan announcement, 2)
	go func() {
		defer close(s.read)
		defer log.Close()
		follow(output, log, ready)
	}()
	for late := time.After(loadTime); ; {
		select {
		case said, is := <-ready:
			if !is {
				return nil, errors.Join(fmt.Errorf("%s ended before it was ready: see %s", name, s.log), s.stop())
			}
			s.http = cmp.Or(said.HTTP, s.http)
			if s.address = said.GRPC; said.Event == readyEvent {
				return s, nil
			}
		case <-late:
			return nil, errors.Join(fmt.Errorf("%s was not ready within %v: see %s", name, loadTime, s.log), s.stop())
		}
	}
}

// follow copies a server's log until its end, and sends what it says of its addresses. It closes ready.
func follow(output io.Reader, log io.Writer, ready chan<- announcement) {
	defer close(ready)
	var err error
	for lines := bufio.NewReader(output); err == nil; {
		var line []byte
		line, err = lines.ReadBytes('\n')
		_, _ = log.Write(line) // without it the figures are as good
		var said announcement
		if json.Unmarshal(line, &said) == nil && (said.Event == readyEvent || said.Event == httpEvent) {
			ready <- said
		}
	}
}

func (s *server) pid() int { return s.cmd.Process.Pid }

// stop ends the server.
func (s *server) stop() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // fails if it has ended, which Wait reports
	kill := time.AfterFunc(stopTime, func() { _ = s.cmd.Process.Kill() })
	defer kill.Stop()
	<-s.read
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w: see %s", s.name, err, s.log)
	}
	return nil
}

// family returns a process and all that it started.
func family(pid int) []int {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is right
	for _, path := range stats {
		text, _ := os.ReadFile(path)                         // it may have ended
		_, rest, _ := strings.Cut(string(text), ") ")        // behind the name of the program
		if fields := strings.Fields(rest); len(fields) > 1 { // the state, and the parent
			parent, _ := strconv.Atoi(fields[1])
			child, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			children[parent] = append(children[parent], child)
		}
	}
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// memoryOf returns the megabytes that a family of processes holds: what each has of its own, and once what they share.
// Mapped files, such as programs and libraries, do not count.
func memoryOf(family []int) float64 {
	own, shared := 0.0, 0.0
	for _, of := range family {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", of)) // it may have ended
		own += statusKB(string(text), "RssAnon:")
		shared = max(shared, statusKB(string(text), "RssShmem:"))
	}
	return (own + shared) / 1024
}

// statusKB returns a line of /proc/PID/status, 0 if there is none.
func statusKB(status, key string) float64 {
	_, rest, _ := strings.Cut(status, "\n"+key)
	if fields := strings.Fields(rest); len(fields) > 0 {
		kb, _ := strconv.ParseFloat(fields[0], 64)
		return kb
	}
	return 0
}
