//go:build linux

package worker

import (
	"context"
	"encoding/json"
	"os"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/runtime/engine"
)

// source is what a session is opened from, and on which device, in each process that it outlives.
type source struct {
	model   json.RawMessage
	file    *os.File // nil: it needs none
	device  string
	version string // its name, for people
}

// processor is the device that cannot be lost.
const processor = "cpu"

// judge takes an error that a worker reports by its word, except that the processor is lost: only a worker that was
// taken over, or a text that reads like that, says so, and all models would leave the device.
func (s *source) judge(err error) error {
	if s.device == processor && engine.KindOf(err) == engine.DeviceLost {
		return &engine.Error{Kind: engine.ModelFailed, Err: err}
	}
	return err
}

// close gives the file up. A process in which the session is open keeps its own.
func (s *source) close() {
	if s.file != nil {
		_ = s.file.Close() // it was only read
	}
}

// open opens a session in the process. One that is open only after ctx has ended is closed again, before it can be
// opened another time.
func (p *process) open(ctx context.Context, id uint32, from source) (_ *message, err error) {
	p.mu.Lock()
	closed := p.givenUp[id]
	p.mu.Unlock()
	if closed != nil {
		select {
		case <-closed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	defer func() {
		if err != nil && ctx.Err() != nil {
			p.giveUp(id)
		}
	}()
	answer, err := p.ask(ctx, &message{Kind: openMessage, ID: id, Model: from.model}, openedMessage, from.file)
	return answer, from.judge(err)
}

// giveUp has a session closed once it is open.
func (p *process) giveUp(id uint32) {
	closed := make(chan struct{})
	p.mu.Lock()
	p.givenUp[id] = closed
	p.mu.Unlock()
	go func() {
		_, _ = p.ask(context.Background(), &message{Kind: closeMessage, ID: id}, closedMessage, nil) // or the process ends
		p.mu.Lock()
		delete(p.givenUp, id)
		p.mu.Unlock()
		close(closed)
	}()
}

// numbered calls use with the descriptor of a file, which stays open meanwhile; with none where there is no file.
func numbered(f *os.File, use func(files ...int)) error {
	if f == nil {
		use()
		return nil
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { use(int(fd)) })
}

// duplicate returns another descriptor of an open file.
func duplicate(f *os.File) (*os.File, error) {
	fd := -1
	var err error
	if failed := numbered(f, func(files ...int) {
		fd, err = unix.FcntlInt(uintptr(files[0]), unix.F_DUPFD_CLOEXEC, 0)
	}); failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, &os.PathError{Op: "dup", Path: f.Name(), Err: err}
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}
