package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/weftserve/weft/tools/lab/affinity"
	"github.com/weftserve/weft/tools/lab/harness"
)

// child is a process of this program that plays a part, on the processors of clients.
type child struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  bytes.Buffer
	errs bytes.Buffer
	said chan struct{} // closed when the first line has come
}

// start begins a child. It ends with ctx.
func start(ctx context.Context, cpus []int, niceness int, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.CommandContext(ctx, self, args...), said: make(chan struct{})}
	c.cmd.Cancel = func() error { return c.cmd.Process.Signal(syscall.SIGTERM) } // it prints what it did until then
	c.cmd.WaitDelay = stopTime
	harness.EndWithParent(c.cmd)
	c.cmd.Stdout, c.cmd.Stderr = &firstLine{&c.out, c.said, false}, &c.errs
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return c, affinity.Start(cpus, niceness, c.cmd.Start)
}

// firstLine tells of the first write.
type firstLine struct {
	io.Writer

	said chan struct{}
	told bool
}

func (w *firstLine) Write(p []byte) (int, error) {
	if !w.told {
		w.told = true
		defer close(w.said)
	}
	return w.Writer.Write(p)
}

// result waits for the end of a child, and reads what it printed.
func (c *child) result(into any) error {
	if err := c.cmd.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("%v: %w: %s", c.cmd.Args[1:], err, c.errs.String())
	}
	return json.Unmarshal([]byte(strings.TrimPrefix(c.out.String(), readyWord+"\n")), into)
}
