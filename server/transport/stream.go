package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	rpc "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"

	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/status"
	"github.com/weftserve/weft/sharedsched"
)

// Streamed is what a protocol has for one stream of its requests.
type Streamed interface {
	// New returns a message that is to be read.
	New() Request
	// Enter takes a request in that came at that time, and sets its limit. cancel gives it up. The error refuses it. What
	// it adds to Exchange.Holds ends before the request's answer is sent.
	Enter(m Request, arrival time.Time, cancel context.CancelCauseFunc) error
	// Failed returns the message that answers a request which failed; nil: the stream ends with that error.
	Failed(m Request, why *rpc.Status) any
}

// Stream serves a stream. It returns once everything that it accepted was answered.
func (c *Calls) Stream(call grpc.ServerStream, of Streamed) error {
	if err := c.Pipeline.Gate().EnterStream(); err != nil {
		return status.Fail(call.Context(), err, predict.Place{})
	}
	defer c.Pipeline.Gate().LeaveStream()
	st := &stream{
		Calls: c, call: call, of: of, slots: make(chan struct{}, c.MaxInFlightPerStream), ended: make(chan error, 2),
	}
	// Its requests have all been answered by then.
	defer c.Pipeline.EndStream(st)
	err := st.run()
	st.answers.Wait()
	// An answer ended it after its caller's half-close, or while the server stopped; or that came after the half-close,
	// and there is nothing to open again for.
	for len(st.ended) > 0 && (err == nil || errors.Is(err, errOpenAgain)) {
		err = <-st.ended
	}
	if errors.Is(err, errOpenAgain) {
		err = c.fail(call.Context(), err, predict.Place{})
	}
	return err
}

// errOpenAgain ends a stream of a server that stops. Nothing was accepted after it was decided.
var errOpenAgain = fmt.Errorf("%w: open the stream again; its requests without an answer were not accepted",
	sharedsched.ErrDraining)

// stream is a stream that is served. A goroutine reads, one per accepted request runs it and sends the answer, and the
// handler waits, so that a drain reaches it while the reader waits for the caller.
type stream struct {
	*Calls

	call    grpc.ServerStream // many may send at a time, as messageStream lets them
	of      Streamed
	slots   chan struct{} // one element per request being read, run or answered; its capacity is the bound
	answers sync.WaitGroup
	// ended gets why nothing more is read: from the reader, and from an answer that ends the stream. The first error
	// counts.
	ended chan error

	mu     sync.Mutex
	over   bool                 // guarded by mu; nothing is accepted any more
	atEnd  bool                 // guarded by mu; the latest request ended its episode
	latest map[streamKey]*place // guarded by mu; of each episode, the last of those without an answer
}

// streamKey names an episode of a stream.
type streamKey struct{ model, episode string }

// place is that of a request among those of its episode on a stream. Its Exchange holds it, and so releases it.
type place struct {
	of     *stream
	key    streamKey
	begins bool // it, or one before it, begins the episode
	// guarded by the stream's mu
	before *place
	left   bool
	tell   []chan struct{} // closed when this one and all before it have left
}

// line puts a request behind those of the same episode that came before it.
func (st *stream) line(x *Exchange) {
	x.StreamID = st
	if x.Episode == "" {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	of := streamKey{x.Model, x.Episode}
	p := &place{of: st, key: of, begins: x.BeginEpisode, before: st.latest[of]}
	if p.before != nil {
		x.AfterBegin = p.before.begins
		p.begins = p.begins || x.AfterBegin
		after := make(chan struct{})
		p.before.tell, x.After = append(p.before.tell, after), after
	}
	if st.latest == nil {
		st.latest = map[streamKey]*place{}
	}
	st.latest[of] = p
	x.Holds = append(x.Holds, p)
}

// Release lets the next request go. One that is given up must not let the next one pass the requests before both.
func (p *place) Release() {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.left = true
	for p.before != nil && p.before.left {
		p.before = p.before.before
	}
	if p.of.latest[p.key] == p {
		if p.of.latest[p.key] = p.before; p.before == nil {
			delete(p.of.latest, p.key)
		}
	}
	if p.before != nil {
		p.before.tell = append(p.before.tell, p.tell...)
		return
	}
	for _, after := range p.tell {
		close(after)
	}
}

// run accepts requests until the caller half-closes (nil), the stream breaks, or the server stops (errOpenAgain): while
// it is retiring, where an episode ends; at once when it leaves. Once run has returned, no request is begun any more;
// those begun go on.
func (st *stream) run() error {
	// The reader ends once the handler has returned at the latest: gRPC makes RecvMsg fail then.
	go func() {
		defer func() {
			if caught := predict.Recovered(st.call.Context(), st.Logger, "reading a stream", recover()); caught != nil {
				st.end(status.Of(caught, predict.Place{}).Err())
			}
		}()
		st.end(st.read())
	}()
	select {
	case <-st.Pipeline.Gate().Reached(predict.Retiring):
		if st.leaves(false) {
			return errOpenAgain
		}
	case err := <-st.ended:
		st.leaves(true)
		return err
	}
	select {
	case <-st.Pipeline.Gate().Reached(predict.Leaving):
		st.leaves(true)
		return errOpenAgain
	case err := <-st.ended:
		st.leaves(true)
		return err
	}
}

// leaves ends the accepting, in any case or only where no episode has begun since the latest one ended. It reports
// whether nothing is accepted any more.
func (st *stream) leaves(anyhow bool) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.over = st.over || anyhow || st.atEnd
	return st.over
}

// end ends the reading of the stream.
func (st *stream) end(why error) {
	select {
	case st.ended <- why:
	default: // it ends already
	}
}

// read accepts the messages that come, one per free slot, until there are no more (nil) or none is accepted any more
// (errOpenAgain, unless the stream has broken).
func (st *stream) read() error {
	for {
		select {
		// Before the message is read: a caller that sends more than there are slots is stopped by flow control.
		case st.slots <- struct{}{}:
		case <-st.call.Context().Done(): // as it is once the handler has returned
			return st.call.Context().Err()
		}
		m := st.of.New()
		asked := time.Now()
		err := st.call.RecvMsg(m)
		if err == nil && !st.begin(m.Common()) {
			err = errOpenAgain
		}
		if err != nil {
			m.Release()
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		st.accept(m, asked)
	}
}

// begin counts a request that is about to be accepted, unless nothing is any more. Under the same lock leaves ends the
// accepting, so that nothing is added to answers while they are waited for. On a server that is retiring the last
// request of an episode is the last one of its stream.
func (st *stream) begin(x *Exchange) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.over {
		return false
	}
	st.answers.Add(1)
	st.atEnd = x.EndOfEpisode
	if x.EndOfEpisode && st.Pipeline.Gate().Has(predict.Retiring) {
		st.over = true
		st.end(errOpenAgain)
	}
	return true
}

// accept starts a request, or answers at once that it cannot be. The request's slot is held until its answer was sent.
// Its time counts from when it came; one that came before the stream asked for it may have lain unread for lack of a
// slot, which nothing tells apart, and counts from then.
func (st *stream) accept(m Request, asked time.Time) {
	now := time.Now()
	ctx, cancel := context.WithCancelCause(st.call.Context())
	x := m.Common()
	r := &x.Request
	r.Arrived = now.Add(-min(protect.Waited(st.call.Context(), now), now.Sub(asked)))
	err := x.Refused
	if err == nil {
		err = st.of.Enter(m, r.Arrived, cancel)
	}
	if err == nil {
		st.line(x)
	}
	go func() {
		defer st.answers.Done()
		defer cancel(nil)
		defer func() { <-st.slots }()
		var at predict.Place
		if err != nil {
			st.Pipeline.Refuse(ctx, r, err)
		} else {
			at, err = st.Pipeline.Predict(ctx, r)
		}
		answer, fault := st.answer(m, at, err)
		if answer != nil { // else the stream ends with the error, and counts once
			protect.Judge(ctx, fault)
		}
		// Release empties the request, and Leave wants to know what it was.
		left := *r
		// What came is of no use any more, however long the answer lies here. The caller may use the id, and what the
		// request had of its quotas, again as soon as it has the answer.
		if errors.Is(err, predict.ErrPanic) {
			x.Leave()
		} else {
			m.Release()
		}
		if answer != nil {
			// A failure means that the stream is broken, or breaks it: no caller is left to be answered, and the reader
			// learns of it too. Answers that are too large to send have become errors before (CheckSize).
			_ = st.call.SendMsg(answer)
		}
		// Only now: an answer that its caller does not read is still in the server.
		st.Pipeline.Leave(&left)
	}()
}

// answer returns the message that answers one request, nil where the stream ends instead, and whether it is refused for
// what it is.
func (st *stream) answer(m Request, at predict.Place, err error) (answer any, fault bool) {
	if err == nil {
		return m.Common().Answer, false
	}
	why := status.Of(st.Narrow(m.Common().By, err), at)
	end := why.Err()
	fault = status.OfCaller(end)
	answer = st.of.Failed(m, why.Proto())
	if answer == nil {
		if st.Codes != nil {
			end = st.Codes(end)
		}
		st.end(end)
	}
	return answer, fault
}
