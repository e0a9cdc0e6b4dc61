package activity

import (
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/sharedsched"
)

const (
	frameEvery = 250 * time.Millisecond
	// framesAhead may wait for a viewer; further ones it misses.
	framesAhead = 4
	// MostViewers may watch at once: a page takes a connection of few.
	MostViewers = 64
)

// Frame is one Activity, for all viewers.
type Frame struct {
	*weftv1.Activity

	numbers sync.Once
	plain   *Frame // without batches and requests
	encoded sync.Once
	json    []byte
}

// Numbers returns the frame without its batches and requests.
func (f *Frame) Numbers() *Frame {
	f.numbers.Do(func() {
		a := f.Activity
		f.plain = &Frame{Activity: &weftv1.Activity{
			Run: a.GetRun(), Began: a.GetBegan(), FromMs: a.GetFromMs(), NowMs: a.GetNowMs(), WindowMs: a.GetWindowMs(),
			Devices: a.GetDevices(), Versions: a.GetVersions(), Running: a.GetRunning(), Totals: a.GetTotals(),
		}}
	})
	return f.plain
}

// JSON returns the frame as JSON. Enumerations are numbers, and zeros are left out. The error is that a text is not
// UTF-8.
func (f *Frame) JSON() []byte {
	f.encoded.Do(func() {
		data, err := protojson.MarshalOptions{UseEnumNumbers: true}.Marshal(f.Activity)
		if err != nil {
			data = []byte("{}") // a name that is not UTF-8: such requests are refused
		}
		f.json = data
	})
	return f.json
}

// views are the viewers. A goroutine makes frames while there are any.
type views struct {
	mu     sync.Mutex
	joined map[chan *Frame]time.Duration // guarded by mu; new viewers, and how far back they want to see
	all    map[chan *Frame]struct{}      // guarded by mu
}

// Follow shows the server at work, from a while back on, until the context ends. What show returns false for is the
// last. A viewer that is slow misses frames. It reports false at once if MostViewers watch already.
func (l *Log) Follow(ctx context.Context, back time.Duration, show func(*Frame) bool) bool {
	frames := make(chan *Frame, framesAhead)
	if !l.join(frames, back) {
		return false
	}
	defer l.leave(frames)
	for {
		select {
		case f := <-frames:
			if !show(f) {
				return true
			}
		case <-ctx.Done():
			return true
		}
	}
}

// join adds a viewer, if there is room.
func (l *Log) join(frames chan *Frame, back time.Duration) bool {
	v := &l.views
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.all)+len(v.joined) >= MostViewers {
		return false
	}
	if v.all == nil {
		v.all, v.joined = map[chan *Frame]struct{}{}, map[chan *Frame]time.Duration{}
		go l.show()
	}
	v.joined[frames] = back
	return true
}

func (l *Log) leave(frames chan *Frame) {
	l.views.mu.Lock()
	defer l.views.mu.Unlock()
	delete(l.views.all, frames)
	delete(l.views.joined, frames)
}

// show makes frames until there is no viewer.
func (l *Log) show() {
	ticks := time.NewTicker(frameEvery)
	defer ticks.Stop()
	for since := l.cursor(); ; <-ticks.C {
		state := l.State()
		until := l.cursor()
		if !l.views.give(&Frame{Activity: l.frame(since, until, &state, inFrame)}, func(back time.Duration) *Frame {
			return &Frame{Activity: l.frame(l.cursorAt(until.at.Add(-back)), until, &state, inFirst)}
		}) {
			return
		}
		since = until
	}
}

// give hands a frame to all viewers, and their first one to new viewers. It reports whether there are any.
func (v *views) give(frame *Frame, first func(back time.Duration) *Frame) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for frames := range v.all {
		select {
		case frames <- frame:
		default:
		}
	}
	for frames, back := range v.joined {
		frames <- first(back) // there is room
		v.all[frames] = struct{}{}
	}
	clear(v.joined)
	if len(v.all) > 0 {
		return true
	}
	v.all, v.joined = nil, nil
	return false
}

// Run keeps the histories, once a second, until the context ends.
func (l *Log) Run(ctx context.Context) {
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for done := l.secondOf(l.now()); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		second := l.secondOf(l.now())
		var state sharedsched.State
		if !l.idle(second) { // it has each version: nobody wants to pay for that each second
			state = l.State()
		}
		for done = max(done, second-windowSeconds); done < second; done++ {
			l.tick(done, &state)
		}
	}
}
