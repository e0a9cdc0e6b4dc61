//go:build linux

package worker

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/runtime/engine"
)

// DeathError says how a worker's process ended.
type DeathError struct {
	// Signal that ended it, such as SIGSEGV; "": it ended by itself.
	Signal string
	// Outside: something other than the engine ended it, such as kill -9 or the system's lack of memory.
	Outside bool
	// Exceeded is the bound in bytes that its memory exceeded, so that the server ended it; 0: it did not.
	Exceeded int64
	// Text says it to people.
	Text string

	ended bool // by this server
}

func (e *DeathError) Error() string { return "the engine's process ended: " + e.Text }

// EndedBy returns the signal that the process died of; "" if it ended by itself, or by the will of this server.
func (e *DeathError) EndedBy() string {
	if e.ended {
		return ""
	}
	return e.Signal
}

// signalName finds the signal in the words of Go's runtime, which catches those of the engine and then exits.
var signalName = regexp.MustCompile(`\bSIG[A-Z]{2,5}\b`)

// deathOf describes the end of a process. killed says why this server ended it, if it did; last is the end of what it
// wrote.
func deathOf(state *os.ProcessState, err error, killed killing, last []string) *DeathError {
	d := &DeathError{Text: fmt.Sprint(err)}
	if state == nil {
		return d
	}
	d.Text = state.String()
	status, _ := state.Sys().(syscall.WaitStatus)
	switch {
	case status.Signaled():
		d.Signal = unix.SignalName(status.Signal())
		d.Outside = status.Signal() == syscall.SIGKILL || status.Signal() == syscall.SIGTERM
	case len(last) > 0:
		d.Signal = signalName.FindString(strings.Join(last, "\n"))
	}
	if d.Signal != "" {
		d.Text = d.Signal
	}
	if killed.why != "" && status.Signaled() && status.Signal() == syscall.SIGKILL {
		d.Text, d.Outside, d.Exceeded, d.ended = killed.why, !killed.byRun, killed.exceeded, true
		return d
	}
	for _, line := range last {
		if line = strings.TrimSpace(line); line != "" {
			d.Text += ": " + strings.TrimPrefix(line, d.Text+": ")
			break
		}
	}
	return d
}

// lacking gives an error that says what the machine lacks, whatever the request, the kind of a run that was not made.
func lacking(err error) error {
	remedy := ""
	switch {
	case errors.Is(err, unix.EMFILE):
		remedy = "raise the limit of open files (ulimit -n, LimitNOFILE of systemd)"
	case errors.Is(err, unix.ENFILE):
		remedy = "the system has no more open files: raise fs.file-max"
	case errors.Is(err, unix.EAGAIN):
		remedy = "raise the limit of processes and threads (ulimit -u, TasksMax of systemd, pids.max of the control group)"
	case errors.Is(err, unix.ENOMEM):
		remedy = "give the machine, or its control group, more memory"
	}
	if remedy != "" {
		err = fmt.Errorf("%w; %s", err, remedy)
	}
	return &engine.Error{Kind: engine.NotOpen, Err: err}
}
