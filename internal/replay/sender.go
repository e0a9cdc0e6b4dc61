package replay

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/weftserve/weft/internal/record"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// defaultLimit is the limit of requests that were recorded without one, so that a server that hangs cannot hold the
// replay.
const defaultLimit = 30 * time.Second

// sender sends recorded requests, each when it is due, and after the one before of its episode where a server keeps the
// state of that. The fields below the blank line are valid once run has returned.
type sender struct {
	speed       Speed
	concurrency int
	timeout     time.Duration // 0: the recorded one
	maxGap      time.Duration // longer recorded times between two requests are cut to it; 0: none is
	// choose sets the target that a request asks for.
	choose  func(*weftv1.PredictRequest)
	predict func(context.Context, *weftv1.PredictRequest) (*weftv1.PredictResponse, error)
	// done is called for each request that was answered, failed, or was not sent, from several goroutines at once.
	done     func(replayed)
	episodes episodes

	mu   sync.Mutex
	sent int       // guarded by mu
	late durations // guarded by mu; how much later than due requests were sent
	gaps int       // that were cut
	cut  time.Duration
}

// replayed is one request that was sent again, or was not.
type replayed struct {
	entry  *record.Entry
	answer *weftv1.PredictResponse // nil if it failed
	err    error
	took   time.Duration
	unsent string // why it was not; "": it was
}

// run sends the entries, which come in the order of their arrival, and returns when all sent requests have ended. When
// ctx ends it sends no more, and does not count the requests that were not answered yet.
func (r *sender) run(ctx context.Context, entries iter.Seq2[*record.Entry, error]) error {
	r.episodes.live = map[episodeKey]*episode{}
	defer r.endAll(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, r.concurrency)
	var last, start time.Time // last is when the request before arrived
	var after time.Duration   // the first one, with the gaps cut
	for e, err := range entries {
		if err != nil {
			return err
		}
		// At full speed each request is due at once, and none is late.
		due := time.Now()
		if start.IsZero() {
			last, start = e.At, due
		}
		after += r.gap(e.At.Sub(last))
		last = e.At
		if r.speed > 0 {
			due = start.Add(r.speed.after(after))
		}
		t := r.episodes.next(e)
		if t.of == nil && t.unsent != "" {
			r.done(replayed{entry: e, unsent: t.unsent})
			continue
		}
		// An interrupted replay has nothing more to send, which is no error.
		if !sleepUntil(ctx, due) {
			return nil
		}
		// At the bound of requests in flight this one is sent late, which the report shows. Later ones keep their times.
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		wg.Go(func() {
			defer func() { <-slots }()
			if t.of != nil {
				r.step(ctx, e, t, due)
				return
			}
			r.sending(due)
			_, _ = r.send(ctx, e, 0)
		})
	}
	return nil
}

// sending notes that a request is sent now.
func (r *sender) sending(due time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent++
	if r.speed > 0 {
		r.late.add(time.Since(due))
	}
}

// gap returns how much of the recorded time between two requests is kept.
func (r *sender) gap(recorded time.Duration) time.Duration {
	if r.maxGap == 0 || r.speed == 0 || recorded <= r.maxGap {
		return recorded
	}
	r.gaps++
	r.cut += recorded - r.maxGap
	return r.maxGap
}

// hurried reports whether requests came faster than they were recorded.
func (r *sender) hurried() bool { return r.speed == 0 || r.speed > 1 || r.gaps > 0 }

// send sends one request, and reports its end. One that ends because the replay does is not reported. If a label is
// asked for, version stays in its place; 0: there is none yet.
func (r *sender) send(ctx context.Context, e *record.Entry,
	version int64,
) (answer *weftv1.PredictResponse, err error) {
	limit := r.timeout
	if limit == 0 {
		limit = time.Duration(e.LimitUs) * time.Microsecond
	}
	if limit <= 0 {
		limit = defaultLimit
	}
	call, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r.choose(e.Request)
	if spec := e.Request.GetModel(); spec.GetLabel() != "" && version > 0 {
		spec.VersionChoice = &weftv1.ModelSpec_Version{Version: version}
	}
	start := time.Now()
	answer, err = r.predict(call, e.Request)
	took := time.Since(start)
	if ctx.Err() == nil {
		r.done(replayed{entry: e, answer: answer, err: err, took: took})
	}
	return answer, err
}

// sleepUntil reports whether the moment came before ctx ended.
func sleepUntil(ctx context.Context, moment time.Time) bool {
	wait := time.NewTimer(time.Until(moment))
	defer wait.Stop()
	select {
	case <-wait.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
