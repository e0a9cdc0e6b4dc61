//go:build linux

package worker

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/runtime/engine"
)

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
