package serving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/proof"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// acts is the scheduler, the owner and the engine's quarantine of a version: each does what the next word says, and
// counts how often it was asked.
type acts struct {
	Scheduler
	*served
	words          []string
	comes          bool                      // no version is found, but one is being loaded
	fails          bool                      // that load does
	run            func(*tensor.Batch) error // of the engine, once; nil: echo
	original, next *Replica
	version        *Version
	undecided      *execution.UndecidedError // the first

	mu sync.Mutex // guards comes and v, which a change sets

	looked, together, alone, isolated int
	executions                        int             // of it, on its last replica
	whole                             []bool          // of its runs alone: in the form in which it came
	targets                           []time.Duration // of the tasks
}

// act returns a version whose scheduler, owner and quarantine follow a script: words, one after the other.
func act(t *testing.T, quarantine bool, words ...string) *acts {
	t.Helper()
	a := &acts{words: words}
	e, q := weftest.OverRows(1, nil), weftest.OverRows(1, nil)
	e.Declared.Outputs[0].Shape[1] = tensor.Unknown
	e.Answer = func(b *tensor.Batch) error {
		if a.run != nil {
			return a.run(b)
		}
		return echo(b)
	}
	if q.Answer = a.quarantined; quarantine {
		e.Opened.Quarantine = q
	}
	a.served = serve(t, e, options{change: trusted})
	a.version, a.original = a.v, a.v.Replicas()[0]
	a.next = a.original.moved()
	a.next.Device = a.Fleet.Get("other")
	a.next.unit.Follow(a.original.unit.Plan())
	a.Scheduler, a.Shared.sched, a.Shared.Owner = a.sched, a, a
	return a
}

// restore has the version closed as it was opened.
func (a *acts) restore() {
	a.v = a.version
	a.v.Change([]*Replica{a.original})
}

// asked says how often each part was asked.
func (a *acts) asked() string {
	var all []string
	for _, n := range []struct {
		times int
		part  string
	}{{a.looked, "looked"}, {a.together, "together"}, {a.alone, "alone"}, {a.isolated, "isolated"}} {
		if n.times > 0 {
			all = append(all, fmt.Sprint(n.times, " ", n.part))
		}
	}
	return strings.Join(all, ", ")
}

// told is what the caller gets.
func told(err error) string {
	failed, is := errors.AsType[*catalog.ModelError](err)
	_, refused := errors.AsType[*sharedsched.Refusal](err)
	switch {
	case err == nil:
		return "answer"
	case is && failed.Crashed:
		return "crashed"
	case is && failed.OutOfMemory():
		return "out of memory"
	case is && failed.Mates > 0:
		return "alone failed"
	case is:
		return "failed"
	case refused:
		return "full"
	}
	for cause, word := range map[error]string{
		catalog.ErrNotReady: "not ready", catalog.ErrUntried: "untried", sharedsched.ErrRemoved: "removed",
		sharedsched.ErrExpired: "expired", sharedsched.ErrClosed: "closed", context.DeadlineExceeded: "left",
	} {
		if errors.Is(err, cause) {
			return word
		}
	}
	return err.Error()
}

func (a *acts) word() (w string) {
	if len(a.words) == 0 {
		return "ok"
	}
	w, a.words = a.words[0], a.words[1:]
	return w
}

func (a *acts) Find(*catalog.Version) (*Version, bool) {
	a.looked++
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.comes {
		return nil, true
	}
	return a.v, false
}

func (a *acts) Step(string, int64) *catalog.Version { return nil }

func (a *acts) Changed(string) <-chan struct{} {
	changed := make(chan struct{})
	time.AfterFunc(time.Second, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.comes = false; a.fails {
			a.v = nil
		} else if a.v != nil {
			a.v.Change([]*Replica{a.next})
		}
		close(changed)
	})
	return changed
}

// Do ends a task by the next word.
func (a *acts) Do(_ context.Context, _ sharedsched.VersionID, t *sharedsched.Task) (sharedsched.Outcome, error) {
	job := t.Payload.(*execution.Job)
	if t.Alone {
		a.alone++
		a.whole = append(a.whole, job.Plan != nil)
	} else {
		a.together++
	}
	a.targets = append(a.targets, t.Target)
	own := sharedsched.Span{Payload: job, Rows: job.Rows}
	mate := own
	mate.Payload = &execution.Job{Unit: job.Unit, Inputs: job.Inputs, Rows: job.Rows}
	a.run = nil
	failing := func(k engine.Kind) error {
		a.run = func(*tensor.Batch) error { return &engine.Error{Kind: k, Err: errFailed} }
		b := &sharedsched.Batch{Spans: []sharedsched.Span{own, mate}, Rows: 2 * job.Rows, Padded: 2 * job.Rows}
		execution.Execute(b)
		if undecided, is := errors.AsType[*execution.UndecidedError](b.Spans[0].Err); is {
			undecided.Answer() // to the other one
			a.undecided = cmp.Or(a.undecided, undecided)
		}
		return b.Spans[0].Err
	}
	ran := func(n int, err error) (sharedsched.Outcome, error) {
		a.executions += n
		return sharedsched.Outcome{Executions: n, DeviceTime: time.Duration(n)}, err
	}
	switch w := a.word(); w {
	case "ok", "fails":
		if w == "fails" {
			a.run = func(*tensor.Batch) error { return errFailed }
		}
		b := &sharedsched.Batch{Spans: []sharedsched.Span{own}, Rows: job.Rows, Padded: job.Rows}
		execution.Execute(b)
		return ran(1, b.Spans[0].Err)
	case "split", "apart": // two executions, whose answers fit together, or do not
		for first := range 2 {
			wide := 1
			if w == "apart" {
				wide += first
			}
			a.part(job, first, wide)
		}
		return ran(2, nil)
	case "crash":
		return ran(1, failing(engine.Crashed))
	case "undecided":
		return ran(1, failing(engine.Terminated))
	case "too much": // for the answers of all of its batch
		return ran(1, failing(engine.AnswerTooLarge))
	case "opening":
		a.part(job, 0, 1) // that its process could answer
		done := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(done) })
		return sharedsched.Outcome{}, &engine.Error{Kind: engine.Terminated, Err: &engine.ReopeningError{Done: done}}
	case "full":
		return sharedsched.Outcome{}, &sharedsched.Refusal{Reason: sharedsched.RefusedQueueFull, RetryAfter: time.Second}
	case "too large":
		return sharedsched.Outcome{}, &sharedsched.Refusal{Reason: sharedsched.RefusedQueueFull, RetryAfter: -1}
	case "moved":
		a.v.Change([]*Replica{a.next})
	case "lost", "lost, untold", "lost, loading", "lost, failing", "lost, gone":
		a.original.Device.Lose(errFailed)
		a.fails = w == "lost, failing"
		a.comes = a.fails || w == "lost, loading"
		switch w {
		case "lost":
			a.v.Change([]*Replica{a.next})
		case "lost, gone":
			a.v = nil
		}
	case "gone":
	default:
		a.t.Errorf("the scheduler is asked at %q", w)
	}
	a.undecided, a.executions = nil, 0 // on its next replica it is new
	return sharedsched.Outcome{}, sharedsched.ErrRemoved
}

// part answers a row of a job, in an execution of its own, by so many numbers.
func (a *acts) part(j *execution.Job, row, wide int) {
	a.run = func(b *tensor.Batch) error {
		b.Process = 7
		clear(b.Output(0, tensor.Float32, tensor.Shape{1, int64(wide)}, 4*wide))
		return nil
	}
	s := sharedsched.Span{Payload: j, First: row, Rows: 1}
	execution.Execute(&sharedsched.Batch{Spans: []sharedsched.Span{s}, Rows: 1, Padded: 1})
	a.run = nil
}

// quarantined runs a request in quarantine by the next word.
func (a *acts) quarantined(b *tensor.Batch) error {
	a.isolated++
	switch w := a.word(); w {
	case "answered":
		return echo(b)
	case "failed":
		return errFailed
	case "crashed":
		return errCrash
	case "outside":
		return errStopped
	case "left":
		return &engine.Error{Kind: engine.DeviceLost, Err: errFailed}
	default:
		a.t.Errorf("the quarantine is asked at %q", w)
		return nil
	}
}

func echo(b *tensor.Batch) error {
	b.Process = 0
	x := &b.Inputs[0]
	copy(b.Output(0, x.DType, x.Shape, len(x.Data)), x.Data)
	return nil
}

// TestTheOrderOfAttempts: each row of the table of type step, by what happens to a request of two rows one after the
// other; what its caller gets; and how often the owner, the scheduler and the quarantine were asked.
func TestTheOrderOfAttempts(t *testing.T) {
	for _, c := range []struct{ happens, gets, asked string }{
		{"ok", "answer", "1 looked, 1 together"},
		{"fails", "failed", "1 looked, 1 together"},
		{"full", "full", "1 looked, 1 together"},
		// The model is being opened: the request waits, also for room then.
		{"opening; opening; ok", "answer", "1 looked, 3 together"},
		{"opening; split", "answer", "1 looked, 2 together"},
		{"opening; full; full; ok", "answer", "1 looked, 4 together"},
		{"opening; too large", "full", "1 looked, 2 together"},
		// The version has left its place in the scheduler.
		{"moved; ok", "answer", "2 looked, 2 together"},
		{"opening; moved; full", "full", "2 looked, 3 together"},
		{"gone", "not ready", "2 looked, 1 together"},
		// The device is lost.
		{"lost; ok", "answer", "2 looked, 2 together"},
		{"lost, untold; ok", "answer", "3 looked, 2 together"},
		{"lost, loading; ok", "answer", "3 looked, 2 together"},
		{"lost, failing", "not ready", "3 looked, 1 together"},
		{"lost, gone", "not ready", "2 looked, 1 together"},
		// What it waits for outside of the scheduler comes too late.
		{hurried + "opening", "expired", "1 looked, 1 together"},
		{hurried + "lost, loading", "expired", "2 looked, 1 together"},
		{left + "opening", "left", "1 looked, 1 together"},
		{left + "lost, loading", "left", "2 looked, 1 together"},
		{abandoned + "opening", "closed", "1 looked, 1 together"},
		{abandoned + "lost, loading", "closed", "2 looked, 1 together"},
		// Outputs that cannot be joined.
		{"apart; ok", "answer", "1 looked, 1 together, 1 alone"},
		{"apart; fails", "failed", "1 looked, 1 together, 1 alone"},
		{"apart; undecided; ok", "answer", "1 looked, 2 together, 1 alone"}, // the version is out of batching
		{"apart; undecided; undecided; answered", "answer", "1 looked, 2 together, 1 alone, 1 isolated"},
		// A batch failed, and nobody knows by whose fault.
		{"undecided; ok", "answer", "1 looked, 1 together, 1 alone"},
		{"too much; ok", "answer", "1 looked, 1 together, 1 alone"},
		{"undecided; fails", "alone failed", "1 looked, 1 together, 1 alone"},
		{"undecided; opening; full; ok", "answer", "1 looked, 1 together, 3 alone"},
		{"undecided; full", "full", "1 looked, 1 together, 1 alone"},
		{"undecided; moved; ok", "answer", "2 looked, 2 together, 1 alone"},
		{"undecided; moved; undecided; ok", "answer", "2 looked, 2 together, 2 alone"},
		{"undecided; undecided; answered", "answer", "1 looked, 1 together, 1 alone, 1 isolated"},
		{unquarantined + "undecided; undecided", "alone failed", "1 looked, 1 together, 1 alone"},
		{unquarantined + "crash; ok", "answer", "1 looked, 1 together, 1 alone"},
		{unquarantined + "crash; crash", "alone failed", "1 looked, 1 together, 1 alone"},
		// Its batch ended the process.
		{"crash; answered", "answer", "1 looked, 1 together, 1 isolated"},
		{"crash; failed", "alone failed", "1 looked, 1 together, 1 isolated"},
		{"crash; crashed", "crashed", "1 looked, 1 together, 1 isolated"},
		{"crash; outside", "untried", "1 looked, 1 together, 1 isolated"},
		{"crash; left", "not ready", "2 looked, 1 together, 1 isolated"},
		{"opening; crash; answered", "answer", "1 looked, 2 together, 1 isolated"},
		{"moved; crash; answered", "answer", "2 looked, 2 together, 1 isolated"},
		{"undecided; crash; crashed", "crashed", "1 looked, 1 together, 1 alone, 1 isolated"},
		// Rows that no caller asked for.
		{ofProof + "full; full; ok", "answer", "3 alone"},
		{ofProof + "too large", "out of memory", "1 alone"},
		{ofProof + "opening; ok", "answer", "2 alone"},
		{ofProof + "gone", "removed", "1 alone"},
		{ofProof + "undecided", "failed", "1 alone"},
		{ofProof + "crash; answered", "answer", "1 alone, 1 isolated"},
		{ofProof + "crash; crashed", "crashed", "1 alone, 1 isolated"},
		{ofAudit + "full", "full", "1 alone"},
		{ofAudit + "opening; full; ok", "answer", "3 alone"},
	} {
		t.Run(c.happens, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { follows(t, c.happens, c.gets, c.asked) })
		})
	}
}

// Whose row it is, or what is missing.
const (
	ofProof       = "proof: " // where nothing is looked up
	ofAudit       = "audit: "
	unquarantined = "no quarantine: "
	// Half a second after it came its limit, its context or the scheduler ends.
	hurried   = "limit: "
	left      = "left: "
	abandoned = "abandoned: "
)

// follows checks one row.
func follows(t *testing.T, happens, gets, asked string) {
	whose, events, is := strings.Cut(happens, ": ")
	if whose += ": "; !is {
		whose, events = "", happens
	}
	a := act(t, whose != unquarantined, strings.Split(events, "; ")...)
	defer a.restore()
	call, began := a.ask(1, 2), time.Now()
	j := &execution.Job{Unit: a.original.unit, Inputs: call.Inputs, Rows: 2, Task: sharedsched.Task{Alone: true}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	var err error
	switch whose {
	case hurried:
		call.Limit = began.Add(time.Second / 2)
	case left:
		ctx, cancel = context.WithTimeout(ctx, time.Second/2)
	case abandoned:
		time.AfterFunc(time.Second/2, a.sched.Abandon)
	}
	defer cancel()
	switch whose {
	case ofProof:
		_, err = newRunner(a.original).Run(ctx, proof.Request{Inputs: call.Inputs, Rows: 2})
	case ofAudit:
		_, err = a.original.runRow(t.Context(), j)
	default:
		err = a.answer(ctx, call)
	}
	if got := told(err); got != gets || len(a.words) > 0 {
		t.Errorf("it gets %s (%v), want %s; left over: %q", got, err, gets, a.words)
	}
	if got := a.asked(); got != asked {
		t.Errorf("asked %s, want %s", got, asked)
	}
	if waited := time.Since(began); gets == "answer" && whose == "" && call.Outcome.Queue != waited {
		t.Errorf("it waited for %v, and says %v", waited, call.Outcome.Queue)
	}
	o, n := call.Outcome, a.executions
	if whose == "" && (o.Executions != n+a.isolated || o.DeviceTime != time.Duration(n)) {
		t.Errorf("it says %d executions, want %d and %d in quarantine; in %v", o.Executions, n, a.isolated, o.DeviceTime)
	}
	whole := strings.HasPrefix(events, "too much") || strings.HasPrefix(events, "apart")
	if whose == "" && a.alone > 0 && a.whole[0] != whole {
		t.Errorf("it runs alone as it came: %v", a.whole)
	}
	if strings.HasPrefix(events, "apart") && call.Phases.Process != 7 {
		t.Errorf("the phases of its parts are forgotten: %+v", call.Phases)
	}
	if len(call.Results) > 0 {
		if y := call.Results[0]; y.Shape[0] != 2 || y.Check() != nil {
			t.Errorf("the answer has the shape %v: %v", y.Shape, y.Check())
		}
	}
	if gets == "answer" && a.undecided != nil && whose == "" && a.undecided.Mates() < 2 {
		t.Error("nobody of its batch hears of its answer")
	}
	for _, r := range []*Replica{a.original, a.next} {
		if r.pending.Load() != 0 || r.Device.Pending.Load() != 0 {
			t.Errorf("%v are still expected to be answered", time.Duration(r.pending.Load()))
		}
	}
}

// TestATaskThatIsHandedOverAgain keeps its limit and its target: both count from the arrival.
func TestATaskThatIsHandedOverAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := act(t, true, "opening", "opening", "undecided", "opening", "opening")
		call := a.ask(1, 2)
		call.Target, call.Limit = 2500*time.Millisecond, time.Now().Add(3500*time.Millisecond)
		err := a.answer(t.Context(), call)
		s := time.Second
		want := []time.Duration{5 * s / 2, 3 * s / 2, s / 2, s / 2, 1}
		if !slices.Equal(a.targets, want) || !errors.Is(err, sharedsched.ErrExpired) {
			t.Errorf("targets %v, want %v; the task ended with %v", a.targets, want, err)
		}
		if left := a.original.Device.Pending.Load(); left != 0 {
			t.Errorf("%v are still expected to be answered", time.Duration(left))
		}
		a.restore()
	})
}
