//go:build linux

package worker

import (
	"context"
	"encoding/json"
	"os"

	"golang.org/x/sys/unix"
)

// source is what a session is opened from, in each process that it outlives.
type source struct {
	model json.RawMessage
	file  *os.File // nil: it needs none
}

// close gives the file up. A process in which the session is open keeps its own.
func (s *source) close() {
	if s.file != nil {
		_ = s.file.Close() // it was only read
	}
}

// open opens a session in the process. One that is open only after ctx has ended is closed again.
func (p *process) open(ctx context.Context, id uint32, from source) (_ *message, err error) {
	defer func() {
		if err != nil && ctx.Err() != nil {
			go func() { _, _ = p.ask(context.Background(), &message{Kind: closeMessage, ID: id}) }()
		}
	}()
	m := &message{Kind: openMessage, ID: id, Model: from.model}
	if from.file == nil {
		return p.ask(ctx, m)
	}
	file, err := duplicate(from.file) // the session may be closed meanwhile
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return p.ask(ctx, m, int(file.Fd()))
}

// duplicate returns another descriptor of an open file.
func duplicate(f *os.File) (*os.File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	failed := raw.Control(func(of uintptr) { fd, err = unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, 0) })
	if failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, &os.PathError{Op: "dup", Path: f.Name(), Err: err}
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}
