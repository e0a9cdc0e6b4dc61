//go:build linux

package hunt

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The kinds of ends that a candidate can come to.
const (
	answered = "answer"
	failed   = "error"
	hung     = "hang"   // longer than trialPatience
	memory   = "memory" // more than trialMemory resident
	large    = "large"  // an answer of largeAnswer bytes or more
)

const (
	trialPatience = 2 * time.Second
	trialMemory   = 2 << 30
	largeAnswer   = 64 << 20
)

// candidate is a model and a request that may be a poison.
type candidate struct {
	Sketch string
	Inputs string
}

// ending is what became of a candidate.
type ending struct {
	Kind  string // one of the kinds, or the signal or exit status that ended the process
	Where string // "open" or "run"
	Text  string
	Bytes int // of the answer
}

// runner runs candidates in a process that is this test program, until one of them ends it.
type runner struct {
	t       testing.TB
	command *exec.Cmd
	stdin   io.WriteCloser
	answers chan string
	said    *bytes.Buffer
	ended   chan struct{}
}

// childVariable makes this program the process for trials; it names the folder for their models.
const childVariable = "WEFT_POISON_CHILD"

func TestMain(m *testing.M) {
	if folder := os.Getenv(childVariable); folder != "" {
		serveTrials(folder)
		return
	}
	os.Exit(m.Run())
}

// start starts the process, with the engine's library loaded.
func (r *runner) start() {
	r.command = exec.CommandContext(r.t.Context(), os.Args[0])
	r.command.Env = append(os.Environ(), childVariable+"="+r.t.TempDir(), "GOTRACEBACK=single")
	r.said = &bytes.Buffer{}
	r.command.Stderr = r.said
	r.command.WaitDelay = time.Second
	r.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var err error
	if r.stdin, err = r.command.StdinPipe(); err != nil {
		r.t.Fatal(err)
	}
	out, err := r.command.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.command.Start(); err != nil {
		r.t.Fatal(err)
	}
	answers, ended, command := make(chan string), make(chan struct{}), r.command
	r.answers, r.ended = answers, ended
	go func() {
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if text, is := strings.CutPrefix(lines.Text(), "trial "); is {
				answers <- text
			}
		}
		_ = command.Wait()
		close(ended)
	}()
	if first := r.await(&ending{}, 60*time.Second); first != "ready" {
		r.t.Fatalf("the process for trials does not start: %q %s", first, r.said)
	}
}

func (r *runner) close() {
	if r.command == nil {
		return
	}
	_ = r.command.Process.Kill()
	<-r.ended
	r.command = nil
}

// try runs a candidate.
func (r *runner) try(c candidate) (e ending) {
	if r.command == nil {
		r.start()
	}
	e.Where = "open"
	if err := json.NewEncoder(r.stdin).Encode(c); err != nil {
		r.t.Fatal(err)
	}
	for _, where := range []string{"open", "run"} {
		e.Where = where
		answer := r.await(&e, trialPatience)
		if e.Kind != "" {
			r.close()
			return e
		}
		if answer != "opened" {
			if err := json.Unmarshal([]byte(answer), &e); err != nil {
				r.t.Fatalf("%q: %v", answer, err)
			}
			return e
		}
	}
	return e
}

// await returns the next line of the process, or says in e how it ended.
func (r *runner) await(e *ending, patience time.Duration) string {
	late := time.After(patience)
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case answer := <-r.answers:
			return answer
		case <-r.ended:
			e.Kind, e.Text = deathOf(r.command.ProcessState, r.said.String())
			return ""
		case <-late:
			e.Kind = hung
			return ""
		case <-look.C:
			if resident(r.command.Process.Pid) > trialMemory {
				e.Kind = memory
				return ""
			}
		}
	}
}

// resident returns the bytes of memory that a process occupies.
func resident(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.Atoi(fields[1])
	return pages * os.Getpagesize()
}

// lastWords are the reason that a process gives before the stack of each thread.
var lastWords = regexp.MustCompile(`(?m)^(terminate|SIG[A-Z]+:|fatal error:|panic:).*(\n.*){2}`)

var signalName = regexp.MustCompile(`\bSIG[A-Z]{2,5}\b`)

// deathOf names the signal or the exit status that ended a process. Go's runtime catches signals, tells and exits.
func deathOf(state *os.ProcessState, said string) (kind, text string) {
	status, _ := state.Sys().(syscall.WaitStatus)
	text = strings.Join(strings.Fields(lastWords.FindString(said)), " ")
	if status.Signaled() {
		return unix.SignalName(status.Signal()), text
	}
	if name := signalName.FindString(said); name != "" {
		return name, text
	}
	return fmt.Sprintf("exit %d", status.ExitStatus()), text
}
