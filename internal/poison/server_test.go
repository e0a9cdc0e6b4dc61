//go:build linux

package poison

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/weftserve/weft/internal/onnxgraph/sketch"
	"github.com/weftserve/weft/internal/race"
	"github.com/weftserve/weft/internal/weftest"
)

// program builds the real program once, and returns its path.
var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("weft-%d", os.Getpid()))
	args := []string{"build", "-o", path}
	if race.Enabled {
		args = append(args, "-race")
	}
	if said, err := exec.Command("go", append(args, "../../cmd/weft")...).CombinedOutput(); err != nil {
		return path, fmt.Errorf("%w: %s", err, said)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	status := m.Run()
	os.Remove(filepath.Join(os.TempDir(), fmt.Sprintf("weft-%d", os.Getpid()))) // the program
	os.Exit(status)
}

// record is what the tests read of a record of the log.
type record struct{ Level, Event, GRPC, HTTP, Signal, Cause string }

// server is the real server, in a process of its own.
type server struct {
	t          testing.TB
	repository string
	command    *exec.Cmd
	conn       *grpc.ClientConn
	grpc, http string
	ended      chan struct{} // closed once the process has ended
	status     int           // its exit status, from then on
	close      func()

	mu     sync.Mutex
	events map[string]int // guarded by mu, as is the rest
	said   []string
}

// serve starts a server on a repository, and waits until its models are loaded. It is stopped at the end of the test,
// and must be there until then.
func serve(t testing.TB, repository string, flags ...string) *server {
	t.Helper()
	return serveWith(t, nil, repository, flags...)
}

// serveWith is serve by a command that runs the one that follows it.
func serveWith(t testing.TB, by []string, repository string, flags ...string) *server {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, repository: repository, ended: make(chan struct{}), events: map[string]int{}}
	command := append(slices.Clone(by), path)
	s.command = exec.Command(command[0], slices.Concat(command[1:], []string{
		"serve", repository, "--listen=127.0.0.1:0", "--http=127.0.0.1:0",
		"--admin-listen=", "--log-format=json", "--watch-interval=200ms", "--state-dir=", "--lame-duck=0s",
	}, flags)...)
	s.command.Env = append(os.Environ(), "OTEL_TRACES_EXPORTER=none", "OTEL_METRICS_EXPORTER=none")
	s.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := s.command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make(chan record, 1)
	go s.follow(out, ready)
	select {
	case r := <-ready:
		s.grpc = r.GRPC
		if s.conn, err = weftest.Dial(r.GRPC); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		http := s.http // it was logged before
		s.mu.Unlock()
		for !weftest.Settled(t.Context(), http) {
			select {
			case <-time.After(50 * time.Millisecond): // nothing tells but asking
			case <-s.ended:
				t.Fatalf("the server ended while it loaded its models:\n%s", strings.Join(s.said, "\n"))
			}
		}
	case <-s.ended:
		t.Fatalf("the server did not start:\n%s", strings.Join(s.said, "\n"))
	}
	s.close = sync.OnceFunc(s.end)
	t.Cleanup(s.close)
	return s
}

// follow reads the log until the end of the process.
func (s *server) follow(log io.Reader, ready chan<- record) {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r record
		_ = json.Unmarshal(lines.Bytes(), &r) // what a dying process says is no record
		s.mu.Lock()
		s.events[r.Event]++
		s.said = append(s.said, lines.Text())
		s.said = s.said[max(0, len(s.said)-300):]
		if r.HTTP != "" {
			s.http = "http://" + r.HTTP
		}
		s.mu.Unlock()
		if r.Event == "ready" {
			ready <- r
		}
	}
	_ = s.command.Wait()
	s.status = s.command.ProcessState.ExitCode()
	close(s.ended)
}

// end closes the connection, ends the server, if it has not ended, and says what it logged if the test failed.
func (s *server) end() {
	s.t.Helper()
	s.conn.Close()
	select {
	case <-s.ended:
	default:
		s.terminate()
		if s.status != 0 {
			s.t.Errorf("the server ended with status %d", s.status)
		}
	}
	if s.t.Failed() {
		s.t.Logf("the end of its log:\n%s", strings.Join(s.said, "\n"))
	}
}

// terminate sends SIGTERM and waits until the server has ended.
func (s *server) terminate() (took time.Duration) {
	start := time.Now()
	_ = s.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(2 * weftest.Patience): // twice its own time, or more
		s.t.Errorf("the server has not ended %v after SIGTERM", time.Since(start))
		_ = s.command.Process.Kill()
		<-s.ended
	}
	return time.Since(start)
}

// alive reports whether the server's process has not ended.
func (s *server) alive() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

func (s *server) event(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events[name]
}

// workers returns the processes that the server has started.
func (s *server) workers() []int {
	pids := weftest.Children(s.command.Process.Pid)
	slices.Sort(pids)
	return pids
}

// holdings are what a server holds that a leak would add to.
type holdings struct{ Files, Shared, Maps, Goroutines, Workers int }

// goroutineCount finds the number of goroutines on the page of metrics.
var goroutineCount = regexp.MustCompile(`(?m)^go_goroutines (\d+)`)

func (s *server) holdings() (h holdings) {
	s.t.Helper()
	proc := fmt.Sprintf("/proc/%d/", s.command.Process.Pid)
	files, err := os.ReadDir(proc + "fd")
	maps, err2 := os.ReadFile(proc + "maps")
	if err := errors.Join(err, err2); err != nil {
		s.t.Fatal(err)
	}
	h.Files = len(files)
	h.Maps = strings.Count(string(maps), "\n")
	h.Shared = strings.Count(string(maps), "/memfd:weft")
	if m := goroutineCount.FindSubmatch(s.metrics()); m != nil {
		h.Goroutines, _ = strconv.Atoi(string(m[1]))
	}
	h.Workers = len(s.workers())
	return h
}

// metrics returns the page of metrics.
func (s *server) metrics() []byte {
	s.t.Helper()
	resp, err := http.Get(s.http + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return page
}

// addModel adds a model to a repository. It is moved there whole, so that no server sees a part of it.
func addModel(t testing.TB, repository, name, text, manifest string) {
	t.Helper()
	m, err := sketch.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	whole := filepath.Join(t.TempDir(), name)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(os.MkdirAll(filepath.Join(whole, "1"), 0o755))
	check(os.WriteFile(filepath.Join(whole, "1", "model.onnx"), m.Graph.Marshal(), 0o644))
	check(os.WriteFile(filepath.Join(whole, "model.yaml"), []byte(manifest), 0o644))
	check(os.Rename(whole, filepath.Join(repository, name)))
}
