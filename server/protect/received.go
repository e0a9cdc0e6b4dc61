package protect

import "time"

// received takes note of frames that came. It returns for how long they should wait. A frame that exceeds a limit ends
// the connection; a rate that is exceeded only delays it, and has it asked to go.
func (a *account) received(s *scanner, b []byte) (wait time.Duration) {
	now := time.Now()
	a.mu.Lock()
	a.bulk = 0
	why, wrong := Reason(0), false
	for {
		var h head
		var ok bool
		if h, b, ok = s.next(b); !ok {
			break
		}
		// After one that is too many the others are only gone over: the scanner must stay in step with the frames.
		if !wrong {
			why, wrong = a.frame(h, now)
		}
	}
	wait, exceeds := a.excess(now)
	retire := wait > 0 && a.retired.IsZero()
	if retire {
		a.retired, a.retires = now, exceeds
	}
	f, bulk := a.framed, a.bulk
	a.mu.Unlock()
	switch {
	case wrong:
		a.end(why)
	case retire:
		a.of.tell(a, exceeds)
		// The largest number of a stream: all calls that are open go on.
		f.say(goAway(1<<31-1, enhanceYourCalm, explain(exceeds)))
	}
	a.of.relieve()
	if bulk > 0 {
		wait = max(wait, a.of.pace(time.Now(), bulk))
	}
	return wait
}

// excess returns for how long to wait before more is read, so that resets and refusals do not exceed their rates, and
// which of them would; 0: neither. The caller holds mu.
func (a *account) excess(now time.Time) (wait time.Duration, why Reason) {
	for _, b := range []struct {
		*bucket

		burst, rate float64
		why         Reason
	}{{&a.resets, resetBurst, resetRate, Resets}, {&a.refused, refusalBurst, refusalRate, Refusals}} {
		// This takes nothing, and lets the time that has passed refill it.
		b.take(now, 0, b.burst, b.rate)
		if excess := b.used - b.burst; excess > 0 {
			wait, why = max(wait, min(latest, time.Duration(excess/b.rate*float64(time.Second)))), b.why
			a.atOnce.Store(slowRead)
		}
	}
	return wait, why
}

// pace returns for how long so many bytes of large messages should wait. While nobody sends small ones they do not
// wait.
func (g *Connections) pace(now time.Time, bytes int) time.Duration {
	if now.UnixNano()-g.small.Load() > int64(smallFor) {
		return 0 // for nobody else
	}
	return g.bulk.ReserveN(now, bytes).DelayFrom(now)
}

// served notes that a message has been read.
func (g *Connections) served(bytes int, now time.Time) {
	if 0 < bytes && bytes <= largeMessage && now.UnixNano()-g.small.Load() > int64(smallFor/2) { // seldom: all write here
		g.small.Store(now.UnixNano())
	}
}

// memoryOf returns how much memory bytes of a message take. What is given back must be counted by differences of this,
// for it is rounded.
func memoryOf(bytes int) int64 { return int64(bytes + bytes/overhead) }

// frame takes note of a frame that came, and says if it is one too many. The caller holds mu, here and below.
func (a *account) frame(h head, now time.Time) (why Reason, wrong bool) {
	cost := 1.0
	switch h.kind {
	case frameData:
		cost = a.data(h, now)
	case frameHeaders:
		a.block, a.blockAt, a.pieces = h.stream, now, 0
		if h.stream > a.last { // else they follow a request, which no client of gRPC does
			a.last = h.stream
			a.streams[h.stream] = &stream{}
			a.idle.give(idleCredit)
			cost = 0
		}
		cost += a.headers(h)
	case frameContinuation:
		if a.pieces++; a.pieces > maxContinuations {
			return Headers, true
		}
		cost += a.headers(h)
	case frameReset:
		// The reset of an open call counts as such; any other asks for nothing.
		if a.dropped(h.stream, now) {
			return 0, false
		}
	case frameSettings:
		cost = settingsCost
		a.shake() // a client begins with them
	}
	if cost == 0 {
		return 0, false
	}
	return IdleFrames, !a.idle.take(now, cost, idleBurst, idleRate)
}

// data takes note of data that came, and returns as how many idle frames they count.
func (a *account) data(h head, now time.Time) float64 {
	small := h.length < tiny
	if h.length > maxFrame {
		return 0 // gRPC ends the connection before it comes
	}
	s, open := a.streams[h.stream]
	if !open && small {
		return 1
	}
	if !open { // it ended while more of its request was on the way
		a.bulk += h.length
		return 0
	}
	s.in += h.length
	a.hold(memoryOf(s.in) - memoryOf(s.in-h.length))
	if s.in > largeMessage {
		a.bulk += h.length
	}
	// Tiny data begin a message, but are no progress of it.
	if s.reads && (s.inAt.IsZero() || !small) {
		s.inAt = now
	}
	if !small {
		a.flowed = now
	}
	if small && h.flags&flagEndStream == 0 {
		return 1
	}
	return 0
}

// headers takes note of a piece of headers, and returns as how many idle frames it counts.
func (a *account) headers(h head) float64 {
	if h.flags&flagEndHeaders != 0 {
		a.block = 0
	}
	return float64(max(0, h.length-freeHeaders)) / headerPiece
}

// dropped takes note of the reset of a call, by either side: a peer may also have the server reset it. It counts unless
// it was answered, be it in part, as streams are that end so. It reports whether the call was open.
func (a *account) dropped(id uint32, now time.Time) bool {
	s, open := a.streams[id]
	if open && !s.answered {
		cost := 1.0
		if a.of.config.Clock.All().Short() {
			cost = shortReset
		}
		a.resets.take(now, cost, resetBurst, resetRate)
	}
	a.close(id)
	return open
}

// close forgets a call.
func (a *account) close(id uint32) {
	if s, open := a.streams[id]; open {
		a.hold(-memoryOf(s.in) - memoryOf(s.out))
		s.closed = true
		delete(a.streams, id)
	}
}

// sent takes note of frames that were written. The caller holds framed.writing.
func (a *account) sent(s *scanner, b []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	for {
		var h head
		var ok bool
		if h, b, ok = s.next(b); !ok {
			return
		}
		switch h.kind {
		case frameData:
			a.wrote(h, now)
		case frameHeaders:
			// Trailers end a call.
			if h.flags&flagEndStream != 0 {
				a.ended(h.stream, now)
			}
		case frameReset:
			a.dropped(h.stream, now)
		}
	}
}

// ended takes note of the end of a call. It was refused unless it was answered, be it in part.
func (a *account) ended(id uint32, now time.Time) {
	s, open := a.streams[id]
	switch {
	case !open:
	case s.answered:
		a.resets.give(resetCredit)
	case s.excused:
	// One of the calls that Excuse has told of; their streams are not known, but their number is.
	case a.excused > 0:
		a.excused--
	default:
		a.refused.take(now, 1, refusalBurst, refusalRate)
	}
	a.close(id)
}

// wrote takes note of data that were written.
func (a *account) wrote(h head, now time.Time) {
	a.idle.give(idleCredit)
	a.moved.Store(now.UnixNano())
	// It is served, and does no more than it may: any amount may be read at once from now on.
	if a.resets.used <= resetBurst && a.refused.used <= refusalBurst {
		a.atOnce.Store(0)
	}
	s, open := a.streams[h.stream]
	if !open {
		return
	}
	s.answered = true
	if h.length >= tiny {
		a.flowed = now
	}
	n := min(s.out, h.length)
	s.out -= n
	a.hold(memoryOf(s.out) - memoryOf(s.out+n))
	if h.length >= tiny || s.out == 0 {
		s.outAt = now
	}
}
