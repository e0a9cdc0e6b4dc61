package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weftserve/weft/tools/lab/harness"
)

// server is the process that is fuzzed.
type server struct {
	*harness.Server

	mu       sync.Mutex
	faults   []string // guarded by mu: what it logged and should not have
	stopping bool     // guarded by mu: it was told to
}

// serve starts a server of the repository in a folder, with an access file and more of an environment, and returns when
// it is ready.
func serve(ctx context.Context, program, folder, access string, environment ...string) (s *server, err error) {
	s = &server{}
	s.Server, err = harness.Start(ctx, harness.Options{
		Program: program, Log: filepath.Join(folder, "server.log"), Line: s.take, Environment: environment,
		Stop: 40 * time.Second,
		Args: harness.Serve(filepath.Join(folder, "models"), "--pprof", "--max-episodes=1000", "--shared-memory",
			"--access="+access),
	})
	return s, err
}

// harmful are events that no caller may cause. That a version stalls is none of them: on a busy machine a run may take
// a second, and one that hangs ends its worker.
var harmful = []string{
	"request_panicked", "run_panicked", "shadow_panicked", "worker_died", "request_crashed", "version_taken_out",
	"version_demoted", "worker_output", "request_untried", "device_lost", "stopping",
}

func (s *server) take(line []byte) {
	var r struct{ Level, Event string }
	err := json.Unmarshal(line, &r)
	s.mu.Lock()
	defer s.mu.Unlock()
	// What is no record comes from a library, or from a process that dies.
	if err != nil || r.Event == "" || r.Level == "ERROR" || slices.Contains(harmful, r.Event) {
		if len(s.faults) < 50 && (!s.stopping || r.Event != "stopping") {
			s.faults = append(s.faults, string(bytes.TrimSpace(line)))
		}
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

// end has the server stop, in order.
func (s *server) end() error {
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	return s.Stop()
}
