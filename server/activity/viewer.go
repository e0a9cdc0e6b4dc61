package activity

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MostViewers may watch at once: each is sent everything that happens.
	MostViewers = 64
	// A viewer that has left something unread for so long may be ended to make room for another. So may one that has not
	// taken so many bytes yet, which is more than a system keeps for a program that reads nothing.
	unreadFor = time.Second
	provesIt  = 1 << 20
)

// Reads says how many of the bytes that were sent on the connection of a viewer have arrived at its machine, and how
// many have not: they are on the way, or there is no room for them there, since the viewer does not read.
type Reads func() (arrived, underWay int64)

// views are the viewers. A goroutine (Log.show) makes frames while there are any: the maps are nil while there is none,
// and the first viewer starts it.
type views struct {
	mu     sync.Mutex
	joined map[*viewer]struct{} // guarded by mu; new ones
	all    map[*viewer]struct{} // guarded by mu
}

// viewer is one that watches: a call, or a page. Follow alone receives from frames and calls look; end ends its Follow.
type viewer struct {
	frames chan *Frame
	back   time.Duration // how far the first frame is to reach back
	reads  Reads         // nil: nothing is known
	began  time.Time
	read   atomic.Pointer[time.Time] // until when all that was sent before is known to have arrived
	mark   mark                      // of Follow
	end    context.CancelFunc
}

// mark is how much had been sent on a connection at some time: once so much has arrived, all that was sent before has.
type mark struct {
	sent int64
	at   time.Time
}

// Follow shows the server at work, from a while back on, until the context ends. What show returns false for is the
// last. A viewer that is slow misses frames. It reports false if there is no room: at once, if MostViewers watch
// already who read what they are sent, or later, if another one comes and this one does not. reads may be nil.
func (l *Log) Follow(ctx context.Context, back time.Duration, reads Reads, show func(*Frame) bool) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	now := time.Now()
	v := &viewer{
		frames: make(chan *Frame, framesAhead), back: back, reads: reads, began: now, mark: mark{at: now}, end: cancel,
	}
	if v.read.Store(&now); !l.join(v) {
		return false
	}
	defer l.views.leave(v)
	for {
		select {
		case f := <-v.frames:
			v.look()
			if !show(f) {
				return true
			}
		case <-ctx.Done():
			return l.views.has(v)
		}
	}
}

// look takes note of whether all has arrived that had been sent at the mark, and sets the next one. It would not do to
// wait until nothing is on the way: to a viewer that reads, something may be at any time.
func (v *viewer) look() {
	if v.reads == nil {
		return
	}
	arrived, left := v.reads()
	now := time.Now()
	if left == 0 {
		v.mark = mark{arrived, now}
	}
	if arrived >= v.mark.sent {
		at := v.mark.at
		v.read.Store(&at)
		v.mark = mark{arrived + left, now}
	}
}

// join adds a viewer, if there is room, or another one makes room. That one is taken out at once, and its Follow ends
// by its context. It reports false if all others read what they are sent.
func (l *Log) join(v *viewer) bool {
	all := &l.views
	all.mu.Lock()
	defer all.mu.Unlock()
	if len(all.all)+len(all.joined) >= MostViewers {
		other := all.yieldsLocked(v.began)
		if other == nil {
			return false
		}
		// It is in one of the two.
		delete(all.all, other)
		delete(all.joined, other)
		other.end()
	}
	if all.all == nil {
		all.all, all.joined = map[*viewer]struct{}{}, map[*viewer]struct{}{}
		go l.show()
	}
	all.joined[v] = struct{}{}
	return true
}

// yieldsLocked returns the viewer that makes room for another one: the one that has left something unread for longest,
// or else the oldest viewer that has not shown yet that it reads; nil if all have. A viewer of whose connection nothing
// is known never makes room.
func (v *views) yieldsLocked(now time.Time) (yields *viewer) {
	longest, oldest := unreadFor, now
	for _, some := range []map[*viewer]struct{}{v.all, v.joined} {
		for w := range some {
			if w.reads == nil {
				continue
			}
			arrived, left := w.reads()
			unread := now.Sub(*w.read.Load())
			switch {
			// It holds something up now.
			case left > 0 && unread > longest:
				longest, yields = unread, w
			// While no viewer of the first kind was found.
			case longest == unreadFor && arrived < provesIt && !w.began.After(oldest):
				oldest, yields = w.began, w
			}
		}
	}
	return yields
}

// has reports whether the viewer has not been taken out to make room.
func (v *views) has(w *viewer) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, is := v.all[w]
	_, comes := v.joined[w]
	return is || comes
}

func (v *views) leave(w *viewer) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.all, w)
	delete(v.joined, w)
}
