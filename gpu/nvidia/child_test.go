//go:build linux && cgo

package nvidia

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftserve/weft/gpu"
	"github.com/weftserve/weft/gpu/gputest"
)

// A library stays in its process for good, and a mistake in its use ends the process: so each is used by a child, which
// is this test program with childEnv set.
const childEnv = "WEFT_TEST_NVML_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(beChild())
	}
	os.Exit(m.Run())
}

// opened is a child's first message.
type opened struct {
	Reason, Error    string // why there is no Source
	Devices, Missing []gpu.Device
}

// answer is a child's message about one device.
type answer struct {
	gpu.Sample
	Errors map[string]string // by quantity
}

// beChild opens the library that the system finds, and then reads everything of all devices for each line that comes
// in. It ends when there are no more.
func beChild() int {
	listenFor = 5 * time.Millisecond
	cfg := Config{
		Library: os.Getenv("WEFT_TEST_NVML_LIBRARY"), // empty: found by the system
		Devices: []gpu.Device{{Name: "cuda:0"}, {Name: "cuda:1", Ordinal: 1}},
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	if os.Getenv("WEFT_TEST_NVML_HANGS") != "" {
		cfg.Patience = 50 * time.Millisecond
	}
	if list, set := os.LookupEnv("CUDA_VISIBLE_DEVICES"); set {
		cfg.Visible = &list
	}
	s, err := Open(cfg)
	if err != nil {
		said := opened{Error: err.Error()}
		if u, ok := errors.AsType[*UnavailableError](err); ok {
			said.Reason = u.Reason
		}
		return say(said)
	}
	status := say(opened{Devices: s.Devices(), Missing: s.Missing()})
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var answers []answer
		for i := range s.Devices() {
			a := answer{Errors: map[string]string{}}
			for q := gpu.Quantity(1); q <= gpu.AllQuantities; q <<= 1 {
				if err := s.Read(i, q, &a.Sample); err != nil {
					a.Errors[q.String()] = err.Error()
				}
			}
			answers = append(answers, a)
		}
		status |= say(answers)
	}
	if err := s.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return status
}

// say sends a message to the parent; it returns the status to end with.
func say(what any) int {
	if err := json.NewEncoder(os.Stdout).Encode(what); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// child is a running child.
type child struct {
	opened
	t   *testing.T
	in  io.WriteCloser
	out *json.Decoder
}

// start runs a child that finds the library in a folder. At the end of the test it must end well.
func start(t *testing.T, folder string, env ...string) *child {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program) // ends with its input, after the context of the test
	cmd.Env = append(slices.DeleteFunc(os.Environ(),
		func(v string) bool { return strings.HasPrefix(v, "CUDA_VISIBLE_DEVICES=") }),
		append(env, childEnv+"=1", "LD_LIBRARY_PATH="+folder)...)
	var said strings.Builder
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, in: in, out: json.NewDecoder(out)}
	decodeErr := c.out.Decode(&c.opened)
	end := func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the child ended with %v\n%s", err, said.String())
		}
		if t.Failed() {
			t.Log(said.String())
		}
	}
	if decodeErr != nil {
		end()
		t.Fatal(decodeErr)
	}
	t.Cleanup(end)
	return c
}

// read has the child read everything.
func (c *child) read() (answers []answer) {
	c.t.Helper()
	io.WriteString(c.in, "read\n")
	if err := c.out.Decode(&answers); err != nil {
		c.t.Fatal(err)
	}
	return answers
}

// build makes a library of its own for the test.
func build(t *testing.T, without ...string) (n *gputest.NVML, folder string) {
	t.Helper()
	folder = t.TempDir()
	n, err := gputest.NewNVML(folder, without...)
	if err != nil {
		t.Fatal(err)
	}
	return n, filepath.Dir(n.Path)
}
