//go:build linux

package worker

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/internal/owntime"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
)

// lane carries one run at a time between the server and a process: a page of shared memory with a bell by which each
// tells the other that it has written there.
type lane struct {
	id      uint32
	process *process
	page    *page
	session *Session // whose run it carries; nil: it is free; guarded by process.mu

	copied []byte // the answer, where the worker cannot change it any more
	run    uint64 // number of the run, by which it is stopped
	lacks  error  // what kept the server from giving an output the room that the run asked for; nil: nothing
}

func newLane(p *process, id uint32) (*lane, error) {
	file, memory, err := share("weft lane", pageBytes)
	if err != nil {
		return nil, lacking(fmt.Errorf("the run cannot be handed to the engine's process: %w", err))
	}
	defer unix.Close(file)
	l := &lane{id: id, process: p, page: newPage(memory, callersWait())}
	if err := l.join(file); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// join gives the worker the page, and the eventfd that wakes the server.
func (l *lane) join(page int) error {
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err == nil {
		err = l.page.answered.sleepIn(event)
	}
	if err != nil {
		return lacking(fmt.Errorf("the run cannot be handed to the engine's process: %w", err))
	}
	return l.process.send(&message{Kind: laneMessage, ID: l.id}, page, event)
}

// callersWait is how a batch thread waits for an answer.
func callersWait() waiter { return waiter{yield: runtime.Gosched, alone: runtime.GOMAXPROCS(0) == 1} }

// close gives the lane's memory back. Nobody uses it.
func (l *lane) close() {
	l.page.answered.close()
	_ = unix.Munmap(l.page.memory)
}

// wake ends the wait for an answer that does not come. The process is dead.
func (l *lane) wake() { l.page.answered.end() }

// exchange tells the worker that a request was written and returns its answer.
func (l *lane) exchange() (*cursor, error) {
	l.page.asked.ring()
	if err := l.page.answered.wait(); err != nil { // the worker may write yet, so that the lane cannot be used again
		l.process.kill(fmt.Sprintf("its answer cannot be waited for: %v", err))
		<-l.process.ended
		return nil, crashed(l.process.cause)
	}
	if cause := l.process.death(); cause != nil {
		return nil, crashed(cause)
	}
	answer := l.page.answer
	size := binary.LittleEndian.Uint64(answer)
	if size > uint64(len(answer)-8) {
		return nil, l.damaged("%d bytes, in room for %d", size, len(answer)-8)
	}
	l.copied = append(l.copied[:0], answer[8:8+size]...)
	return &cursor{half: l.copied}, nil
}

// damaged ends a process that answers a run with something that no engine can have said, and returns the error of the
// run.
func (l *lane) damaged(answer string, args ...any) error {
	l.process.killForRun("it answered a run with something that cannot be read: " + fmt.Sprintf(answer, args...))
	<-l.process.ended
	return crashed(l.process.cause)
}

func (l *lane) request(kind int64, values ...int64) *cursor {
	c := &cursor{half: l.page.request}
	c.put(kind)
	c.put(values...)
	return c
}

// stopPatience is how long a run that is to stop may go on until its process is ended: one that stops between two
// operators has as long for an operator.
const stopPatience = 500 * time.Millisecond

// limit has the run that follows stopped when ctx ends or it has taken too long, if need be by ending the process. A
// run that is stopped because nobody waits for it any more is not to blame for that. release must follow the run; it
// reports whether the run was stopped because it took too long.
func (l *lane) limit(ctx context.Context, s *Session, patience time.Duration) (release func() (late bool)) {
	l.run++
	if ctx.Done() == nil && patience == 0 {
		return func() bool { return false }
	}
	p, id, run := l.process, l.id, l.run
	over := make(chan struct{})
	stop := func(end func(why string)) {
		_ = p.send(&message{Kind: stopMessage, ID: id, Size: run})
		select {
		case <-over:
		case <-p.ended:
		case <-p.clock.After(stopPatience):
			end("a run did not stop when it was told to")
		}
	}
	unwatch := context.AfterFunc(ctx, func() { stop(p.kill) })
	var timer *owntime.Timer
	if patience > 0 {
		timer = p.clock.AfterFunc(patience, func() { stop(p.killForRun) })
		s.running.Lock()
		s.patience[timer] = struct{}{}
		s.running.Unlock()
	}
	return func() (late bool) {
		unwatch()
		close(over)
		if timer == nil {
			return false
		}
		s.running.Lock()
		delete(s.patience, timer)
		s.running.Unlock()
		return !timer.Stop() && ctx.Err() == nil
	}
}

// pause is how much a run must have lacked of its time to be charged what it had at most: then the process was paused.
// Less is what runs on a busy machine take of each other. Then the worker knows better, since the clock does not tell
// when between two looks the time was lost.
const pause = 500 * time.Millisecond

// charged returns the device time of a run by the worker's word; 0: not known. Devices are shared by it, so the word
// counts within bounds.
func charged(word, elapsed, lost time.Duration) time.Duration {
	word = min(max(word, 0), elapsed)
	if lost <= pause {
		return word
	}
	return min(cmp.Or(word, elapsed-lost), elapsed-lost)
}

// execute has a session of the process run a batch. It sets the session's statistics.
func (l *lane) execute(ctx context.Context, s *Session, b *tensor.Batch) error {
	began := time.Now()
	b.Process = l.process.command.Process.Pid
	release := l.limit(ctx, s, b.Patience)
	err := l.exchangeAll(s, b)
	lost, elapsed := l.process.clock.Lost(began), time.Since(began)
	took := elapsed - lost
	b.Waited += lost
	b.DeviceTime = charged(b.DeviceTime, elapsed, lost)
	late := release()
	if kind := engine.KindOf(err); err != nil && late && (kind == engine.Terminated || kind == engine.Crashed) {
		return engine.Overrun(min(b.Patience, took), err) // it may have been interrupted
	}
	if death := l.process.death(); err != nil && ctx.Err() != nil && death != nil && death.Outside {
		return &engine.Error{
			Kind: engine.Terminated, Err: fmt.Errorf("%w; the engine's process ended: %s", context.Cause(ctx), death.Text),
		}
	}
	return err
}

// exchangeAll asks for the run of a batch, gives its outputs the room that they need, and declares them.
func (l *lane) exchangeAll(s *Session, b *tensor.Batch) error {
	c := l.request(runRequest, int64(s.id), int64(l.run), int64(b.Most), flag(b.Copied),
		int64(len(b.Inputs)))
	for i := range b.Inputs {
		id, err := s.lend(l.process, b.Inputs[i].Data)
		if err != nil {
			return err
		}
		c.putTensor(id, &b.Inputs[i])
	}
	c.put(int64(len(b.Outputs)))
	for i := range b.Outputs {
		room := b.Room(i)
		id, err := s.lend(l.process, room)
		if err != nil {
			return err
		}
		c.put(int64(id), int64(len(room)))
	}
	if c.bad {
		return errPage
	}
	l.lacks = nil
	for {
		c, err := l.exchange()
		if err != nil {
			return err
		}
		switch kind := c.get(); kind {
		case moreAnswer:
			if err := l.more(s, c, b); err != nil {
				return err
			}
		case doneAnswer:
			return l.done(s, c, b)
		case failedAnswer:
			b.DeviceTime = s.report(c)
			kind, bytes, text := c.getKind(), int(c.get()), c.getText()
			switch {
			case l.lacks != nil:
				return l.lacks
			case c.bad:
				return l.damaged("a failure that is cut short, or of a kind that there is not")
			case kind == engine.AnswerTooLarge:
				return &tensor.TooLargeError{Bytes: bytes, Most: b.Most}
			}
			return s.source.judge((&fault{kind, text}).err())
		default:
			return l.damaged("an answer of the kind %d", kind)
		}
	}
}

// more gives an output more room, or says that there is none.
func (l *lane) more(s *Session, c *cursor, b *tensor.Batch) error {
	i, size := int(c.get()), int(c.get())
	if c.bad || i < 0 || i >= len(b.Outputs) || size < 0 {
		return l.damaged("it asks for %d bytes for output %d of %d", size, i, len(b.Outputs))
	}
	room, err := grow(b, i, size)
	switch {
	case room == nil && err == nil:
		// it has measured the output, and knows the limit
		return l.damaged("it asks for %d bytes for output %d, of at most %d for all", size, i, b.Most)
	case err != nil:
		l.lacks = err
		l.request(moreRequest, 0, 0).putText(err.Error())
		return nil
	}
	id, err := s.lend(l.process, room)
	if err != nil {
		return err
	}
	l.request(moreRequest, int64(id), int64(len(room)))
	return nil
}

// grow returns the room of an output, made so large; nil if no output may need as much.
func grow(b *tensor.Batch, i, size int) (room []byte, err error) {
	defer func() {
		if full, is := recover().(*tensor.OutOfMemoryError); is {
			err = full
		}
	}()
	if !b.Reserve(i, size) {
		return nil, nil
	}
	return b.Room(i), nil
}

// done declares the outputs that a worker has written. It was told how large they may be, as it was told their room.
// Their types are those of the signature, on which everybody relies who joins and compares them. Their shapes may be
// others: some models declare wrong ones, and ONNX Runtime lets them.
func (l *lane) done(s *Session, c *cursor, b *tensor.Batch) error {
	b.DeviceTime = s.report(c)
	left := cmp.Or(b.Most, math.MaxInt)
	for i := range b.Outputs {
		declared := &s.first.Signature.Outputs[i]
		_, t, size := c.getTensor(b.Outputs[i].Shape)
		if room := len(b.Room(i)); c.bad || size < 0 || size > min(left, room) {
			return l.damaged("output %q of %d bytes, in room for %d, or cut short", declared.Name, size, min(left, room))
		}
		left -= size
		b.Output(i, t.DType, t.Shape, size)
		switch t.DType {
		case tensor.Invalid:
			continue // the caller says which output is missing
		case declared.DType:
		default:
			return fmt.Errorf("the engine's process answered output %q with elements of the type %v; the model declares %v",
				declared.Name, t.DType, declared.DType)
		}
		if t.DType == tensor.String { // whose lengths must not change once they are checked
			b.Outputs[i].Data = slices.Clone(b.Outputs[i].Data)
		}
		if err := b.Outputs[i].Check(); err != nil {
			return fmt.Errorf("output %q of the engine's process: %w", declared.Name, err)
		}
	}
	return nil
}
