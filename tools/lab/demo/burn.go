package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
)

// burnWord, as its only argument, has this program take processor time until its input ends.
const burnWord = "burn"

func burn(until io.Reader) {
	go func() {
		for x := 1.0; ; x *= 1.0000001 {
			if x > 1e300 {
				x = 1
			}
		}
	}()
	_, _ = io.Copy(io.Discard, until)
}

// burners are processes that take processor time beside the server, several for each processor.
type burners struct {
	inputs []io.Closer
	cmds   []*exec.Cmd
}

func startBurners(ctx context.Context) (*burners, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b := &burners{}
	for range 3 * runtime.NumCPU() {
		cmd := exec.CommandContext(ctx, self, burnWord)
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			return nil, errors.Join(err, b.stop())
		}
		b.inputs, b.cmds = append(b.inputs, in), append(b.cmds, cmd)
	}
	return b, nil
}

// stop ends them. They end by themselves, too, when this program does.
func (b *burners) stop() error {
	var errs []error
	for i, cmd := range b.cmds {
		_ = b.inputs[i].Close() // fails if the process has ended
		if err := cmd.Wait(); err != nil && cmd.ProcessState == nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
