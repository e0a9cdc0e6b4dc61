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
)

// Frame is one Activity, for all viewers, who must not change it. Its other forms are made when the first viewer asks
// for them, and shared too.
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
			LateOrLostLastMinute: a.GetLateOrLostLastMinute(),
		}}
	})
	return f.plain
}

// JSON returns the frame as JSON. Enumerations are numbers, and zeros are left out. All viewers share the bytes. A
// frame with a text that is not UTF-8 becomes {}.
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

// show makes frames until there is no viewer. A frame begins where the one before ended, so that a viewer that takes
// all of them sees everything once, but for what is left out.
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

// give hands a frame to all viewers, and their first one to new viewers. It reports whether there are any. It never
// waits for a viewer: one that has framesAhead frames unread misses this one.
func (v *views) give(frame *Frame, first func(back time.Duration) *Frame) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for w := range v.all {
		select {
		case w.frames <- frame:
		default:
		}
	}
	// Its first frame takes the place of this one, and ends where this one does.
	for w := range v.joined {
		w.frames <- first(w.back) // there is room
		v.all[w] = struct{}{}
	}
	clear(v.joined)
	if len(v.all) > 0 {
		return true
	}
	v.all, v.joined = nil, nil
	return false
}

// Run keeps the histories, once a second, until the context ends. Seconds that it was late for are made up for, as far
// as the window still has them.
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
