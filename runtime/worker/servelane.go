//go:build linux

package worker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
)

// servedLane is the worker's side of a lane: a goroutine that sleeps until it is asked for a run. It is not tied to a
// thread, which would cost two switches of threads with each runtime.Gosched.
type servedLane struct {
	child *child
	page  *page
	batch *tensor.Batch // of the session that ran last, with so many inputs and outputs
	rooms []*room       // of its outputs
	of    *held

	mu     sync.Mutex
	number uint64             // guarded by mu; of the run that goes on
	cancel context.CancelFunc // guarded by mu; nil: none does
}

// room is the memory of one output: a slab, or more of one, for which it asks the server.
type room struct {
	lane   *servedLane
	output int
	slab   uint32
}

func (c *child) addLane(id uint32, file, event int) error {
	memory, err := mapShared(file, pageBytes)
	_ = unix.Close(file)
	if err != nil {
		_ = unix.Close(event)
		return fmt.Errorf("cannot map a lane: %w", err)
	}
	alone := runtime.GOMAXPROCS(0) == 1
	l := &servedLane{child: c}
	l.page = newPage(memory, waiter{
		yield: yieldThread, alone: alone, keeps: func() bool { return alone && !c.shared.Load() },
	})
	l.page.answered.event = event
	c.mu.Lock()
	c.lanes[id] = l
	c.shared.Store(len(c.lanes) > 1)
	c.mu.Unlock()
	go l.serve()
	return nil
}

// serve answers one run after the other, for as long as the process lives.
func (l *servedLane) serve() {
	for {
		if err := l.page.asked.wait(); err != nil {
			l.child.log.Error("engine process lane failed", "event", "worker_lane_failed", "cause", err)
			return
		}
		l.reply(l.run(&cursor{half: l.page.request}))
		// So that Go's scheduler sees that the goroutine does not compute for long (keptSleep).
		runtime.Gosched()
	}
}

// reply tells the server that an answer was written.
func (l *servedLane) reply(c *cursor) {
	binary.LittleEndian.PutUint64(l.page.answer, uint64(c.at))
	l.page.answered.ring()
}

func (l *servedLane) respond(kind int64) *cursor {
	c := &cursor{half: l.page.answer[8:]}
	c.put(kind)
	return c
}

// run carries out a request and returns the answer.
func (l *servedLane) run(c *cursor) *cursor {
	err := l.execute(c)
	var took time.Duration
	var stats engine.Stats
	if l.of != nil {
		took, stats = l.batch.DeviceTime, l.of.Stats()
	}
	if err == nil {
		answer := l.respond(doneAnswer)
		answer.putStats(took, stats)
		for i := range l.batch.Outputs {
			answer.putTensor(l.rooms[i].slab, &l.batch.Outputs[i])
		}
		if !answer.bad {
			return answer
		}
		err = errPage
	}
	answer := l.respond(failedAnswer)
	answer.putStats(took, stats)
	bytes := 0
	if large, is := errors.AsType[*tensor.TooLargeError](err); is {
		bytes = large.Bytes
	}
	answer.put(int64(engine.KindOf(err)), int64(bytes))
	answer.putText(err.Error())
	return answer
}

// execute reads the batch that a request describes and runs it.
func (l *servedLane) execute(c *cursor) (err error) {
	defer func() {
		if p := recover(); p != nil { // as for lack of memory
			if is, ok := p.(error); ok {
				err = is
			} else {
				err = fmt.Errorf("the run panicked: %v", p)
			}
		}
	}()
	if c.get() != runRequest {
		return errors.New("a run was expected")
	}
	s, number, most, copied := l.child.session(uint32(c.get())), uint64(c.get()), int(c.get()), c.get() == 1
	if s == nil {
		return engine.ErrClosed
	}
	if l.of != s {
		l.of, l.batch = s, tensor.NewBatch(s.inputs, s.outputs, nil)
		l.rooms = make([]*room, s.outputs)
		for i := range l.rooms {
			l.rooms[i] = &room{lane: l, output: i}
		}
	}
	n := c.count()
	if n > s.inputs {
		return errPage
	}
	l.batch.Feed(n)
	for i := range l.batch.Inputs {
		in := &l.batch.Inputs[i]
		id, t, size := c.getTensor(in.Shape)
		memory, err := l.child.slabs.get(id, s.pin)
		if err != nil {
			return err
		}
		if c.bad || size < 0 || size > len(memory) {
			return errPage
		}
		t.Data = memory[:size:size]
		*in = t
	}
	if c.count() != s.outputs {
		return errPage
	}
	for i, r := range l.rooms {
		id, _ := uint32(c.get()), c.get()
		memory, err := l.child.slabs.get(id, s.pin)
		if err != nil {
			return err
		}
		r.slab = id
		l.batch.Lend(i, memory, r)
		l.batch.Outputs[i].DType = tensor.Invalid
		l.batch.Outputs[i].Data = nil
	}
	l.batch.DeviceTime, l.batch.Most, l.batch.Copied = 0, most, copied
	return s.Run(l.begin(number), l.batch)
}

// begin returns the context of a run, which stop ends.
func (l *servedLane) begin(number uint64) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel != nil {
		l.cancel() // of the run before, which has ended
	}
	l.number, l.cancel = number, cancel
	return ctx
}

// stop stops a run, unless it has ended.
func (l *servedLane) stop(number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.number == number && l.cancel != nil {
		l.cancel()
	}
}

// Allocate asks the server for more room for an output.
func (r *room) Allocate(size int) ([]byte, error) {
	l := r.lane
	answer := l.respond(moreAnswer)
	answer.put(int64(r.output), int64(size))
	l.reply(answer)
	if err := l.page.asked.wait(); err != nil {
		return nil, err
	}
	c := &cursor{half: l.page.request}
	kind, id, given := c.get(), uint32(c.get()), c.get()
	switch {
	case kind != moreRequest || c.bad:
		return nil, errors.New("room for an output was expected")
	case id == 0 || given < int64(size):
		return nil, errors.New(c.getText())
	}
	memory, err := l.child.slabs.get(id, l.of.pin)
	if err != nil {
		return nil, err
	}
	r.slab = id
	return memory, nil
}

// Free does nothing: the memory is the server's.
func (*room) Free([]byte) {}
