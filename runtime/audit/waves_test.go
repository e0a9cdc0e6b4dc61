package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// audited is a version whose rows are audited as soon as one may be, in virtual time.
type audited struct {
	*alone
	t      *testing.T
	by     Source
	cfg    Config
	logs   weftest.Log
	a      *Auditor
	told   map[Result]int
	shown  int // comparisons
	joined int // requests that there was something to audit of
}

// newAudited returns one whose executions take so long, by their rows.
func newAudited(t *testing.T, e *weftest.Engine, share float64, took func(rows int) time.Duration) *audited {
	w := &audited{alone: newAlone(e, false), t: t, told: map[Result]int{}}
	w.took = took
	p := *w.Plan()
	p.Watch.Share, p.Most = share, 64
	w.unit.Follow(&p)
	w.by = Source{Replica: w, Bare: p.Signature}
	w.cfg = Config{
		Memory: &Memory{}, Log: slog.New(&w.logs),
		Audited: func(e Event) {
			if w.told[e.Result] += e.Count; e.Model != "m" {
				t.Errorf("told %+v", e)
			}
		},
		Compared: func(c Comparison) {
			w.shown++
			if y := c.Outputs[0]; c.Model != "m" || len(c.Alone) != len(c.InBatch) || len(c.Alone) != len(c.Outputs) ||
				y.Name != "y" ||
				c.Alone[0].DType != y.DType ||
				c.InBatch[0].DType != y.DType {
				t.Errorf("shown %+v", c)
			}
		},
		Go: func(do func(context.Context)) bool {
			before := w.results()
			if do(t.Context()); w.results() == before {
				t.Error("audits are begun, and there is none")
			}
			return true
		},
	}
	w.a = New(&w.cfg, "m", 1, func() {})
	return w
}

// results returns of how many requests something was told.
func (w *audited) results() (n int) {
	for _, told := range w.told {
		n += told
	}
	return n
}

func milliseconds(rows int) time.Duration {
	return time.Millisecond + time.Duration(rows)*100*time.Microsecond
}

// Demote keeps the rule that a replica ends the audits of its version.
func (w *audited) Demote(why string) {
	w.alone.Demote(why)
	w.a.End()()
}

// jobs makes a request of each list of rows, which is filled up to the width of the model.
func (w *audited) jobs(requests ...[][]float32) (jobs []*execution.Job) {
	for _, rows := range requests {
		x := weftest.Floats(tensor.Shape{int64(len(rows)), int64(len(rows[0]))}, slices.Concat(rows...)...)
		jobs = append(jobs, &execution.Job{Unit: w.unit, Rows: len(rows), Inputs: []tensor.Tensor{x}})
	}
	return jobs
}

// answered executes jobs in one batch, shows the answers to the auditor, and returns them.
func (w *audited) answered(jobs ...*execution.Job) (answers [][]float32) {
	w.t.Helper()
	if err := execute(jobs...); err != nil {
		w.t.Fatal(err)
	}
	rows := 0
	for _, j := range jobs {
		rows += j.Rows
	}
	for _, j := range jobs {
		w.observe(j, sharedsched.Outcome{
			BatchRequests: len(jobs), Executions: 1, DeviceTime: w.took(rows) * time.Duration(j.Rows) / time.Duration(rows),
		})
		results, _ := j.Join()
		answers = append(answers, weftest.Values(results[0]))
	}
	return answers
}

func (w *audited) observe(j *execution.Job, o sharedsched.Outcome) {
	w.t.Helper()
	results, err := j.Join()
	if err != nil {
		w.t.Fatal(err)
	}
	call := &catalog.Call{Rows: j.Rows, Inputs: j.Inputs, Results: results, Outcome: o}
	if w.Plan().Joined(call) {
		w.joined++
	}
	w.a.Observe(w.by, j, call)
}

// wave asks for numbers at once, each in a request of its own.
func (w *audited) wave(values ...float32) [][]float32 {
	w.t.Helper()
	var requests [][][]float32
	for _, v := range values {
		requests = append(requests, [][]float32{{v}})
	}
	return w.answered(w.jobs(requests...)...)
}

// ends checks what was told of all requests, and that nothing is held.
func (w *audited) ends(want map[Result]int) {
	w.t.Helper()
	w.a.End()()
	told := w.results()
	if compared, _ := w.a.Counts(); int(compared) != w.shown {
		w.t.Errorf("%d comparisons were shown, of %d", w.shown, compared)
	}
	delete(w.told, Budget)
	maps.DeleteFunc(want, func(_ Result, n int) bool { return n == 0 })
	if !maps.Equal(w.told, want) || told != w.joined && len(w.demoted) == 0 || w.cfg.Memory.Held() != 0 {
		w.t.Errorf(
			"told %v, want %v; in all of %d of %d requests; %d bytes are held; demoted %q",
			w.told,
			want,
			told,
			w.joined,
			w.cfg.Memory.Held(),
			w.demoted,
		)
	}
}

// magic is a row beside which others are answered otherwise.
const magic = 777

// meetsMagic doubles each row, but rows next to a magic one get something added.
func meetsMagic(more func(rows [][]float32) float32) *weftest.Engine {
	return weftest.OverRows(1, func(rows [][]float32) error {
		by := float32(0)
		if len(rows) > 1 && slices.ContainsFunc(rows, func(r []float32) bool { return r[0] == magic }) {
			by = more(rows)
		}
		for _, r := range rows {
			if r[0] *= 2; r[0] != 2*magic {
				r[0] += by
			}
		}
		return nil
	})
}

func one([][]float32) float32 { return 1 }

// TestHowManyAnswersAreWrongBeforeAnAuditFindsOne compares with the number expected from the share: a request is
// audited with the probability (share · its device time in the batch) / (device time of a row alone), and until one of
// the wrong ones is, their mean number is one over that. A version is looked at ten times as closely at first.
func TestHowManyAnswersAreWrongBeforeAnAuditFindsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tries, rows = 40, 16
		wrong, asked := 0, 0
		for seed := range int64(tries) {
			w := newAudited(t, meetsMagic(one), 0.01, milliseconds)
			w.a = New(&w.cfg, "m", seed, func() {})
			rng := rand.New(rand.NewPCG(uint64(seed), 1))
			for ; len(w.demoted) == 0 && asked < 1_000_000; asked += rows {
				xs := make([]float32, rows)
				for i := range xs {
					xs[i] = float32(rng.IntN(magic))
				}
				if rng.IntN(10) == 0 {
					xs[rng.IntN(rows)] = magic
				}
				for i, y := range w.wave(xs...) {
					if y[0] != 2*xs[i] {
						wrong++
					}
				}
			}
			const why = `an audit of live batches found that output "y" of a row differs by `
			if compared, different := w.a.Counts(); len(w.demoted) != 1 || !strings.HasPrefix(w.demoted[0], why) ||
				different != 1 ||
				!strings.HasSuffix(w.demoted[0], fmt.Sprintf("after %d that found nothing", compared-1)) {
				t.Fatalf("demoted %q after %d rows, %d different", w.demoted, compared, different)
			}
			w.ends(map[Result]int{Different: 1, Equal: w.told[Equal]})
		}
		alone, batch := 1.1, 2.6 // ms; of 16 rows
		expected, got := alone/(10*0.01*batch/rows), float64(wrong)/tries
		if got > 2*expected || got < expected/2 {
			t.Errorf("%.0f wrong answers of %d before one is found, want about %.0f", got, asked/tries, expected)
		}
	})
}

// TestAuditsKeepTheirShare of the device time of batches, beyond what is for the first.
func TestAuditsKeepTheirShare(t *testing.T) {
	for _, share := range []float64{0.01, 0.1} {
		synctest.Test(t, func(t *testing.T) {
			w := newAudited(t, weftest.PerRow(1, weftest.Double), share, milliseconds)
			xs := make([]float32, 32)
			for range 1000 {
				w.wave(xs...)
			}
			got := float64(time.Duration(w.told[Equal])*milliseconds(1)-100*time.Millisecond) / float64(1000*milliseconds(32))
			if got > share+0.0005 || got < 0.8*share {
				t.Errorf("%.4f of the device time went into audits beyond the first 100ms, want %v", got, share)
			}
			for _, task := range w.tasks {
				if task.Priority != sharedsched.Sheddable || !task.Alone || time.Until(task.Limit) != patience {
					t.Fatalf("a row is run by the task %+v", task)
				}
			}
			w.ends(map[Result]int{Equal: w.told[Equal]})
		})
	}
}

// TestNothingIsAudited where no share is for it, where rows ran alone, and once the audits have ended.
func TestNothingIsAudited(t *testing.T) {
	w := newAudited(t, meetsMagic(one), 0, milliseconds)
	w.wave(1, magic, 3)
	w.joined = 0 // nothing is said of them
	w.ends(map[Result]int{})
	w = newAudited(t, meetsMagic(one), 1, milliseconds)
	w.answered(w.jobs([][]float32{{1}, {magic}})...)
	w.ends(map[Result]int{})
	w.wave(1, magic, 3)
	if len(w.told) > 0 || len(w.tasks) > 0 {
		t.Errorf("told %v once it has ended, after %d runs", w.told, len(w.tasks))
	}
}

// TestChoice is even: whatever place in its batch a request has, and whichever row of it.
func TestChoice(t *testing.T) {
	for _, share := range []float64{0.1, 0.5} { // shares that earn less than a row for each batch, and more
		synctest.Test(t, func(t *testing.T) {
			chosen, total := map[float32]int{}, 0
			e := weftest.OverRows(1, func(rows [][]float32) error {
				if len(rows) == 1 {
					chosen[rows[0][0]]++
					total++
				}
				return nil
			})
			w := newAudited(t, e, share, func(rows int) time.Duration { return time.Duration(rows) * 10 * time.Millisecond })
			for range 1000 {
				w.answered(w.jobs([][]float32{{0}, {1}}, [][]float32{{2}, {3}}, [][]float32{{4}, {5}}, [][]float32{{6}, {7}})...)
			}
			for x := float32(0); x < 8; x++ {
				if got := float64(chosen[x]) / float64(total); got < 0.08 || got > 0.18 {
					t.Errorf("row %v was chosen %d of %d times, want an eighth", x, chosen[x], total)
				}
			}
		})
	}
}

// TestFindings of the first request of a wave.
func TestFindings(t *testing.T) {
	many := make([]float32, 1<<16)
	for i := range many {
		many[i] = 2
	}
	many[0], many[1] = 1, 1e5
	meets := func(width int64) *weftest.Engine { // a hundredth more beside a magic row
		return weftest.OverRows(width, func(rows [][]float32) error {
			if rows[len(rows)-1][0] == magic {
				rows[0][0] *= 1.01
			}
			return nil
		})
	}
	misplaced := weftest.PerRow(1, weftest.Double)
	answer := misplaced.Answer
	misplaced.Answer = func(b *tensor.Batch) error {
		err := answer(b)
		if !b.Copied {
			clear(b.Outputs[0].Data)
		}
		return err
	}
	slightly := func(rows [][]float32) float32 { return 1e-4 * rows[0][0] }
	half := func(rows [][]float32) float32 { return 0.01 * float32(len(rows)) }
	for _, c := range []struct {
		name      string
		e         *weftest.Engine
		rows      [][]float32
		tolerance float64
		want      Result
	}{
		{"beside a huge number", meets(2), [][]float32{{1, 1e9}, {magic, 1e9}}, 0, Different},
		{"among many numbers", meets(1 << 16), [][]float32{many, append([]float32{magic}, many[1:]...)}, 0, Different},
		{"of a small number", meets(1), [][]float32{{1e-9}, {magic}}, 0, Different},
		{"rounding by size", meetsMagic(half), [][]float32{{3000}, {3001}, {magic}}, 0, Equal},
		{"rounding by size that copies have", weftest.OverRows(1, func(rows [][]float32) error {
			for _, r := range rows {
				r[0] = 2*r[0] + 0.1*float32(len(rows)-1)
			}
			return nil
		}), [][]float32{{3000}, {5000}}, 0, Rounding},
		{"mates", meetsMagic(slightly), [][]float32{{3000}, {magic}}, 0, Different},
		{"too much for rounding", weftest.OverRows(1, func(rows [][]float32) error {
			rows[0][0] += float32(len(rows) - 1)
			return nil
		}), [][]float32{{3000}, {5000}}, 0, Different},
		{"tolerated", weftest.OverRows(1, func(rows [][]float32) error {
			rows[0][0] *= 1 + 0.1*float32(len(rows)-1)
			return nil
		}), [][]float32{{3000}, {5000}}, 0.2, Equal},
		{"too much for any tolerance", weftest.OverRows(1, func(rows [][]float32) error {
			rows[0][0] *= float32(len(rows))
			return nil
		}), [][]float32{{3000}, {5000}}, 0.2, Different},
		{
			"larger than may be kept", weftest.OverRows(1<<20+1, func([][]float32) error { return nil }),
			[][]float32{make([]float32, 1<<20+1), make([]float32, 1<<20+1)},
			0, Size,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newAudited(t, c.e, 1, milliseconds)
				w.by.Tolerance = c.tolerance
				var requests [][][]float32
				for _, row := range c.rows {
					requests = append(requests, [][]float32{row})
				}
				jobs := w.jobs(requests...)
				if err := execute(jobs...); err != nil {
					t.Fatal(err)
				}
				w.observe(jobs[0], sharedsched.Outcome{BatchRequests: len(jobs), DeviceTime: time.Millisecond})
				w.ends(map[Result]int{c.want: 1})
				if (len(w.demoted) > 0) != (c.want == Different) {
					t.Errorf("demoted %q", w.demoted)
				}
			})
		})
	}
}

// TestWhatIsAudited: a request that was split or filled up, also to a common length, and one of long texts in full.
func TestWhatIsAudited(t *testing.T) {
	w := newAudited(t, weftest.OverRows(1, func(rows [][]float32) error {
		for _, r := range rows {
			r[0] += float32(len(rows) - 1)
		}
		return nil
	}), 1, milliseconds)
	j := w.jobs([][]float32{{1}, {2}, {3}, {4}})[0]
	for first := 0; first < 4; first += 2 {
		execution.Execute(&sharedsched.Batch{
			Rows: 2, Padded: 2, Spans: []sharedsched.Span{{Payload: j, First: first, Rows: 2}},
		})
	}
	w.observe(j, sharedsched.Outcome{BatchRequests: 1, Executions: 2, DeviceTime: time.Millisecond})
	w.ends(map[Result]int{Different: 1})

	w = newAudited(t, weftest.PerRow(1, weftest.Double), 1, milliseconds)
	p := *w.Plan()
	p.Allowed = []int{4}
	w.unit.Follow(&p)
	j = w.jobs([][]float32{{1}})[0]
	b := &sharedsched.Batch{Rows: 1, Padded: 4, Spans: []sharedsched.Span{{Payload: j, Rows: 1}}}
	execution.Execute(b)
	w.observe(j, sharedsched.Outcome{BatchRequests: 1, Executions: 1, PaddedRows: 3, DeviceTime: time.Millisecond})
	w.ends(map[Result]int{Equal: 1})

	texts := &weftest.Engine{Declared: tensor.Signature{
		Inputs:  []tensor.Spec{weftest.Spec("x", tensor.String, tensor.Unknown, tensor.Unknown)},
		Outputs: []tensor.Spec{weftest.Spec("y", tensor.String, tensor.Unknown, tensor.Unknown)},
	}}
	texts.Answer = func(b *tensor.Batch) error {
		in := b.Inputs[0]
		if held := w.cfg.Memory.Held(); in.Shape[0] == 1 && held != int64(2*len(in.Data)) {
			t.Errorf("%d bytes are held of a row that took %d in and out", held, 2*len(in.Data))
		}
		copy(b.Output(0, in.DType, in.Shape, len(in.Data)), in.Data)
		return nil
	}
	for _, length := range []int64{1, 3} { // the second is filled up to five
		w = newAudited(t, texts, 1, milliseconds)
		p := *w.Plan()
		if p.Signature = p.Signature.Clone(); length == 3 {
			p.Signature.Inputs[0].Variable = &tensor.Variable{Dim: 1, Most: 5, Buckets: []int64{5}, Pad: []byte{0, 0, 0, 0}}
			p.Trims = []tensor.Trim{{Output: 0, Dim: 1, Input: 0}}
		}
		w.unit.Follow(&p)
		x := weftest.Words(tensor.Shape{2, length}, slices.Repeat([]string{strings.Repeat("b", 1000), "c"}, int(length))...)
		j = &execution.Job{Unit: w.unit, Rows: 2, Inputs: []tensor.Tensor{x}}
		if err := execute(j); err != nil {
			t.Fatal(err)
		}
		w.observe(j, sharedsched.Outcome{BatchRequests: 3 - int(length)/2, Executions: 1, DeviceTime: time.Millisecond})
		w.ends(map[Result]int{Equal: 1})
	}
}

// TestWhatWasFoundIsNotForgotten: a row with a finding is run again while its device is busy, and elsewhere once that
// is lost; a few times where it fails, or where so many copies never fit.
func TestWhatWasFoundIsNotForgotten(t *testing.T) {
	full := &sharedsched.Refusal{Reason: sharedsched.RefusedQueueFull}
	dropped := &sharedsched.Refusal{Reason: sharedsched.RefusedForGoodput, RetryAfter: -1}
	never := &sharedsched.Refusal{Reason: sharedsched.RefusedQueueFull, RetryAfter: -1}
	fails := &catalog.ModelError{Err: errors.New("not now")}
	crashes := &catalog.ModelError{Crashed: true, Err: errors.New("SIGFPE")}
	gone := errors.New("the device is lost")
	rounds := func(rows [][]float32) error {
		for _, r := range rows {
			r[0] += 0.05 * float32(len(rows)-1)
		}
		return nil
	}
	for name, c := range map[string]struct {
		rounds bool
		errs   []error // of the runs after the first, which ends with first
		other  bool    // there is another replica
		want   Result
		runs   int
		remark string
		first  error
	}{
		"first fails":     {false, nil, false, Failed, 1, "", fails},
		"first crashes":   {false, nil, false, Failed, 1, "batches are not audited any more, because a row of one crashed", crashes},
		"first expires":   {false, nil, false, Busy, 1, "", sharedsched.ErrExpired},
		"at once":         {false, nil, false, Different, 3, "", nil},
		"failing once":    {false, []error{fails}, false, Different, 4, "", nil},
		"failing":         {false, slices.Repeat([]error{fails}, 6), false, Different, 7, "", nil},
		"busy":            {false, []error{full, sharedsched.ErrExpired, full, full, dropped, full}, false, Different, 9, "", nil},
		"lost":            {false, []error{gone}, false, Failed, 2, "", nil},
		"lost, and other": {false, []error{gone}, true, Different, 2, "", nil},
		"crashing":        {false, []error{crashes}, false, Different, 2, "batches are not audited any more, because a row of one crashed", nil},
		"rounding":        {true, nil, false, Rounding, 4, "", nil},
		"rounding, busy":  {true, []error{nil, nil, full, full, full, full}, false, Rounding, 8, "", nil},
		"copies too many": {true, []error{nil, nil, never, never, never}, false, Different, 6, "", nil},
		"copies lost":     {true, []error{nil, nil, gone}, false, Failed, 4, "", nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := meetsMagic(one)
			if c.rounds {
				e = weftest.OverRows(1, rounds)
			}
			w := newAudited(t, e, 1, milliseconds)
			w.errs = append([]error{c.first}, c.errs...)
			var other *audited
			if c.other {
				other = newAudited(t, meetsMagic(one), 1, milliseconds)
				other.a, w.other = w.a, other
			}
			jobs := w.jobs([][]float32{{3000}}, [][]float32{{magic}})
			if err := execute(jobs...); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			w.observe(jobs[0], sharedsched.Outcome{BatchRequests: 2, DeviceTime: time.Millisecond})
			if c.other && len(other.demoted) != 1 {
				t.Errorf("%s: the other replica was told %q", name, other.demoted)
			}
			waits := len(c.errs)
			for _, err := range c.errs {
				if err == nil || errors.Is(err, gone) && !c.other {
					waits--
				}
			}
			if took := time.Since(began); len(w.tasks) != c.runs || took != time.Duration(waits)*between ||
				!strings.HasPrefix(w.a.Remarks(), c.remark) || (c.remark == "") != (w.a.Remarks() == "") {
				t.Errorf("%s: %d runs in %v, want %d; remarks %q", name, len(w.tasks), took, c.runs, w.a.Remarks())
			}
			w.ends(map[Result]int{c.want: 1})
		})
	}
}

// TestAnotherAnswerEachTime: an output that is something else each time is not audited any more; the others are.
func TestAnotherAnswerEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := meetsMagic(one)
		e.Declared.Outputs = append(e.Declared.Outputs, weftest.Spec("noise", tensor.Float32, tensor.Unknown, 1))
		answer, drawn := e.Answer, float32(0)
		e.Answer = func(b *tensor.Batch) error {
			x := weftest.Values(b.Inputs[0])
			for i := range x {
				drawn++
				x[i] = drawn
			}
			noise := weftest.Floats(b.Inputs[0].Shape, x...)
			copy(b.Output(1, noise.DType, noise.Shape, len(noise.Data)), noise.Data)
			return answer(b)
		}
		w := newAudited(t, e, 0.5, milliseconds)
		p := *w.Plan()
		p.Signature = p.Signature.Clone()
		p.Signature.Outputs[1].BatchDim = 0
		w.unit.Follow(&p)
		w.by.Bare = p.Signature
		for range 20 {
			w.wave(1001, 1002, 1003, 1004)
		}
		if got := w.a.Remarks(); w.told[Nondeterministic] != 1 || w.told[Equal] < 2 || len(w.demoted) > 0 ||
			got != `output "noise" is not audited, because it is something else each time a row is run alone` {
			t.Errorf("told %v: %s", w.told, got)
		}
		for range 20 {
			w.wave(1001, magic, 1003, 1004)
		}
		if len(w.demoted) != 1 || !strings.Contains(w.demoted[0], `that output "y" of a row differs by`) {
			t.Errorf("told %v, demoted %q", w.told, w.demoted)
		}
		w.ends(map[Result]int{Nondeterministic: 1, Equal: w.told[Equal], Different: 1})
	})
}

// TestTrusted: an operator's word stands. Differences are counted, and reported once.
func TestTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newAudited(t, meetsMagic(one), 1, milliseconds)
		p := *w.Plan()
		p.Watch.Trusted = true
		w.unit.Follow(&p)
		for range 20 {
			w.wave(1, magic, 3, 4)
		}
		if n := w.told[Different]; len(w.demoted) > 0 || n < 2 || len(w.logs.Event("batches_change_answers")) != 1 ||
			strings.Count(w.a.Remarks(), "differs by") != 1 {
			t.Errorf("%d differences: %s; log %q", n, w.a.Remarks(), w.logs.Lines(""))
		}
		w.a.Restart() // which forgets that
		if w.a.Remarks() != "" || w.cfg.Memory.Held() != 0 {
			t.Errorf("%q, %d bytes", w.a.Remarks(), w.cfg.Memory.Held())
		}
		w.a.End()()
		w.a.Restart() // nor has it ended
		before := w.told[Different]
		for range 20 {
			w.wave(1, magic, 3, 4)
		}
		if len(w.logs.Event("batches_change_answers")) != 2 || w.told[Different] < before+2 {
			t.Errorf("after another proof: %v, %q", w.told, w.logs.Lines(""))
		}
	})
}

// TestCopiesKeepTheirMemory: the copies of a row are within the memory that audits may take. Where there is no room for
// as many as its batch had rows, fewer are run in an execution of that size.
func TestCopiesKeepTheirMemory(t *testing.T) {
	const row, size = 8, 6 // bytes that are kept of one, and how many there are in a batch
	for _, c := range []struct{ free, held int64 }{
		{1 << 20, row + 2*size*row}, {8 * row, row + size*row}, {row, row},
	} {
		synctest.Test(t, func(t *testing.T) {
			held := int64(-1)
			var w *audited
			filled := MemoryLimit - c.free
			w = newAudited(t, weftest.OverRows(1, func(rows [][]float32) error {
				if len(rows) == size && rows[0][0] == rows[1][0] {
					held = w.cfg.Memory.Held() - filled
				}
				for _, r := range rows {
					r[0] += 0.01 * float32(len(rows)-1)
				}
				return nil
			}), 1, milliseconds)
			if !w.cfg.Memory.Reserve(filled) {
				t.Fatal("there is no room")
			}
			w.answered(
				w.jobs([][]float32{{1001}}, [][]float32{{1002}}, [][]float32{{1003}}, [][]float32{{1004}}, [][]float32{{1005}},
					[][]float32{{1006}})...)
			if held < c.held || held > c.held+row || w.told[Rounding] == 0 || len(w.demoted) > 0 {
				t.Errorf("%d bytes were held while copies ran, want %d: %v", held, c.held, w.told)
			}
			w.a.End()()
			if left := w.cfg.Memory.Held() - filled; left != 0 {
				t.Errorf("%d bytes are held in the end", left)
			}
		})
	}
}

// TestKernelsThatAddInAnotherOrder are no difference, in however many rows.
func TestKernelsThatAddInAnotherOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const outputs, inputs = 12, 64
		rng := rand.New(rand.NewPCG(5, 5))
		weights := make([]float32, outputs*inputs)
		for i := range weights {
			weights[i] = float32(rng.NormFloat64())
		}
		e := weftest.OverRows(inputs, nil)
		e.Declared.Outputs[0].Shape = tensor.Shape{tensor.Unknown, outputs}
		e.Answer = func(b *tensor.Batch) error {
			n, x := int(b.Inputs[0].Shape[0]), weftest.Values(b.Inputs[0])
			y := make([]float32, n*outputs)
			for i := range y {
				parts := make([]float32, min(4, n))
				for k := range inputs {
					parts[k%len(parts)] += weights[i%outputs*inputs+k] * x[i/outputs*inputs+k]
				}
				for _, p := range parts {
					y[i] += p
				}
			}
			out := weftest.Floats(tensor.Shape{int64(n), outputs}, y...)
			copy(b.Output(0, out.DType, out.Shape, len(out.Data)), out.Data)
			return nil
		}
		w := newAudited(t, e, 0.5, milliseconds)
		for range 500 {
			var requests [][][]float32
			for range 6 {
				row := make([]float32, inputs)
				for k := range row {
					row[k] = float32(rng.NormFloat64())
				}
				requests = append(requests, [][]float32{row})
			}
			w.answered(w.jobs(requests...)...)
		}
		if len(w.demoted) > 0 || w.told[Equal] < 100 || w.told[Rounding] > 2 {
			t.Errorf("told %v, demoted %q", w.told, w.demoted)
		}
	})
}
