package serving

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// Staged reports whether a version is a pipeline whose steps are requests by themselves.
func Staged(v *catalog.Version) bool {
	own, _ := v.Resident.(*Version)
	return own != nil && own.staged() != nil
}

// staged returns the pipeline whose steps are requests by themselves; nil: the version is none.
func (v *Version) staged() *modelrepo.Pipeline {
	if p := v.From.Version.Pipeline; p != nil && p.Staged() {
		return p
	}
	return nil
}

// checkStaged judges a pipeline whose steps leave rows out by what the joined model gives, and by what its steps do.
func (r *Replica) checkStaged() error {
	p, sig := r.staged(), r.signature
	if p == nil {
		return nil
	}
	var faults config.Faults
	for name, text := range p.Defaults {
		o, output, unknown := sig.Output(name), "outputs."+name, false
		if o < 0 {
			faults.Addf(output, "expected elements of a type that Weft serves: take this output away")
			continue
		}
		spec := &sig.Outputs[o]
		if !r.verdict.Batched || spec.BatchDim == tensor.NoBatch {
			faults.Addf(output, "expected independent rows, since conditions (when) leave rows out: %s", r.verdict.Reason)
			continue
		}
		for i, n := range spec.Shape {
			unknown = unknown || i != spec.BatchDim && n == tensor.Unknown
		}
		if unknown {
			faults.Addf(output, "expected known sizes but for the rows, since rows that are left out need them: it is %v, and "+
				"the model of the step is to be exported with these sizes", spec.Shape)
		}
		if in := inputOf(sig, spec, string(text)); in >= 0 {
			if from := &sig.Inputs[in]; from.DType != spec.DType || from.BatchDim != spec.BatchDim || !unknown &&
				!slices.Equal(rowOf(from), rowOf(spec)) {
				faults.Addf("defaults."+name, "expected an input of the same type and shape, %v %v with %s: %s is %v %v with %s",
					spec.DType, spec.Shape, alongDim(spec.BatchDim), text, from.DType, from.Shape, alongDim(from.BatchDim))
			}
		} else if _, err := tensor.ParseElement(spec.DType, string(text)); err != nil {
			faults.Addf("defaults."+name, "expected an element of type %v, or the name of an input: %v", spec.DType, err)
		}
	}
	if s := r.stages.Load(); s != nil && s.use() {
		faults = append(faults, s.check(sig)...)
		s.leave()
	}
	slices.SortFunc(faults, func(a, b config.Fault) int { return cmp.Compare(a.Key, b.Key) })
	return p.At(r.From.Path(), faults)
}

// staged is a request to a pipeline on its way through the steps. Each step is a request to its version, in batches
// with whatever else asks for that. It is charged to the flow of the pipeline, and its target and limit leave time for
// the steps after it: so the first is refused if there is no time for all. The versions are those of the beginning,
// whatever takes their place meanwhile.
type staged struct {
	*modelrepo.Pipeline
	shared *Shared
	call   *catalog.Call
	way    Attempt // with the limit of the request
	payer  payer
	stages *stages
	values []value // by their slots
}

// value returns what has that name in the pipeline.
func (st *staged) value(name string) *value { return &st.values[st.stages.slots[name]] }

// payer is who tasks are charged to, but for callers that pay for themselves: a flow, by name. The zero value is the
// version that runs them.
type payer struct {
	flow       string
	weight     float64
	byIdentity bool
}

// value is a tensor with those rows of the request that rows lists, ascending, along dim; nil: with all of them.
type value struct {
	tensor.Tensor
	dim  int
	rows []int
}

// PredictSteps answers a call to a Staged version.
func (s *Shared) PredictSteps(ctx context.Context, call *catalog.Call) error {
	now, _ := s.Owner.Find(call.Version)
	if now == nil || now.staged() == nil {
		return fmt.Errorf("model %q version %d: %w", call.Version.Model, call.Version.Number, catalog.ErrNotReady)
	}
	taken, err := now.useSteps()
	if err != nil {
		if now.Stalled() == "" {
			s.Owner.Stirred()
		}
		return fmt.Errorf("model %q version %d: %w: %w", now.Model, now.Number, catalog.ErrNotReady, err)
	}
	defer taken.leave()
	m := now.From.Manifest
	st := &staged{
		Pipeline: now.staged(), shared: s, call: call, stages: taken,
		payer:  payer{taken.flow, cmp.Or(call.Version.Weight, m.Weight), m.Fairness == modelrepo.FairIdentity},
		values: make([]value, len(taken.slots)),
	}
	st.way.Begin(s, call)
	for i, in := range call.Version.Signature.Inputs {
		*st.value(in.Name) = value{Tensor: call.Inputs[i], dim: in.BatchDim}
	}
	if err := st.admit(); err != nil {
		return err
	}
	for i := range st.Steps {
		if err := st.run(ctx, i); err != nil {
			return st.fault(i, err)
		}
	}
	st.finish()
	return nil
}

// admit refuses a request whose limit leaves no time for all steps. Nothing of it runs then.
func (st *staged) admit() error {
	first := st.stages.steps[0].held
	takes := first.waiting() + st.later(0, st.Steps[0].Repeat, max(st.call.Rows, 1))
	if left := time.Until(st.way.limit); !st.way.limit.IsZero() && takes > left {
		return &sharedsched.Refusal{Reason: sharedsched.RefusedDeadline, Predicted: takes, Limit: left, RetryAfter: -1}
	}
	return nil
}

func (st *staged) fault(i int, err error) error {
	return fmt.Errorf("step %q: %w", st.Steps[i].Name, err)
}

// run runs a step, as often as it is repeated, for the rows that pass.
func (st *staged) run(ctx context.Context, i int) error {
	step, stage := &st.Steps[i], st.stages.steps[i]
	rows, err := st.passing(step)
	if err != nil {
		return err
	}
	if rows != nil && st.call.Rows > 0 {
		stage.learn(len(rows), st.call.Rows)
	}
	sig := stage.public.Signature
	takes := sig.Inputs
	if slices.ContainsFunc(sig.Optional, func(in tensor.Spec) bool { return step.Inputs[in.Name] != "" }) {
		takes = slices.Concat(takes, sig.Optional)
	}
	inputs, at := make([]tensor.Tensor, len(takes)), map[string]int{}
	for k, in := range takes {
		at[in.Name] = k
		if from := step.Inputs[in.Name]; from != "" {
			inputs[k] = st.value(from).pick(rows)
		}
	}
	if rows != nil && len(rows) == 0 {
		for k, out := range sig.Outputs {
			st.values[stage.gives[k]] = value{dim: out.BatchDim, rows: rows}
		}
		return nil
	}
	var results []tensor.Tensor
	began := time.Now()
	for n := range step.Repeat {
		if results, err = st.ask(ctx, i, step.Repeat-n, inputs); err != nil {
			return err
		}
		for in, out := range step.Carry {
			inputs[at[in]] = results[sig.Output(out)]
		}
	}
	if told := st.shared.Stepped; told != nil && !st.call.Shadow {
		told(st.call.Version.Model, st.call.Version.Number, step.Name, time.Since(began))
	}
	for k, out := range sig.Outputs {
		st.values[stage.gives[k]] = value{Tensor: results[k], dim: out.BatchDim, rows: rows}
	}
	return nil
}

// ask runs a step once; times is how often it is to run, with this time.
func (st *staged) ask(ctx context.Context, i, times int, inputs []tensor.Tensor) ([]tensor.Tensor, error) {
	public, call := st.stages.steps[i].public, st.call
	rows, err := public.Signature.Rows(inputs)
	if err != nil {
		return nil, err
	}
	sub := &catalog.Call{
		Version: public, Inputs: inputs, Rows: rows, Priority: call.Priority, Caller: call.Caller, Shadow: call.Shadow,
		Traced: call.Traced,
	}
	later := st.later(i, times-1, max(rows, 1))
	var a Attempt
	a.Begin(st.shared, sub)
	a.held, a.payer, a.limit = st.stages.steps[i].held, st.payer, st.way.limit
	if !a.limit.IsZero() {
		a.limit = a.limit.Add(-later)
	}
	if sub.Limit = call.Limit; !sub.Limit.IsZero() {
		sub.Limit = a.limit
	}
	if target := cmp.Or(call.Target, call.Version.TargetLatency); target > 0 {
		sub.Target = max(1, target-time.Since(st.way.arrival)-later)
	}
	err = a.Run(ctx)
	before, now := call.Outcome, sub.Outcome
	if now.Executions == 0 { // the last that ran is of an earlier step
		before, now = now, before
	}
	call.Outcome = now
	call.Outcome.Queue += before.Queue
	call.Outcome.Compute += before.Compute
	call.Outcome.DeviceTime += before.DeviceTime
	call.Outcome.Executions += before.Executions
	call.Phases = call.Phases.Plus(sub.Phases)
	return sub.Results, err
}

// later is how long the steps after this one are expected to take, and this one so many times again for these rows:
// what waits at them now, and their runs, for as many rows of the request as lately passed.
func (st *staged) later(i, again, rows int) (sum time.Duration) {
	sum = time.Duration(again) * st.stages.steps[i].held.takes(rows)
	for k := i + 1; k < len(st.Steps); k++ {
		s := st.stages.steps[k]
		sum += s.held.waiting() + time.Duration(max(1, st.Steps[k].Repeat))*s.held.takes(s.expects(st.call.Rows))
	}
	return sum
}

// takes is how long so many rows are expected to take on the replica where they take least: by the cost of a row, and
// for each batch of them no longer than the longest run has taken.
func (v *Version) takes(rows int) (least time.Duration) {
	for i, r := range v.Replicas() {
		row := time.Duration(cmp.Or(r.perRow.Load(), int64(r.first.took)))
		took := row * time.Duration(rows)
		if longest := r.unit.Longest(); longest > 0 {
			most := max(1, r.unit.Plan().Most)
			took = min(took, longest*time.Duration((rows+most-1)/most))
		}
		if i == 0 || took < least {
			least = took
		}
	}
	return least
}

// passing returns the rows that a step runs for; nil: all.
func (st *staged) passing(step *modelrepo.Step) (rows []int, err error) {
	for _, from := range step.Inputs {
		rows = both(rows, st.value(from).rows)
	}
	if step.When == nil {
		return rows, nil
	}
	v := st.value(step.When.Output)
	if rows = both(rows, v.rows); rows == nil {
		rows = make([]int, st.call.Rows)
		for i := range rows {
			rows[i] = i
		}
	}
	if len(rows) == 0 {
		return rows, nil
	}
	one := v.pick(rows)
	numbers := make([]float64, len(rows))
	if n, _ := one.Shape.Elements(); int(n) != len(rows) {
		return nil, fmt.Errorf("%s has the shape %v for %d rows, expected one number for each", step.When.Output, one.Shape,
			len(rows))
	}
	if one.DType == tensor.Bool {
		for i, b := range one.Data {
			numbers[i] = float64(b)
		}
	} else {
		tensor.Numbers(numbers, one.DType, one.Data, 0)
	}
	passing := rows[:0:0]
	for i, row := range rows {
		if step.When.Passes(numbers[i]) {
			passing = append(passing, row)
		}
	}
	return passing, nil
}

// both returns the rows in both lists; nil is all of them.
func both(a, b []int) []int {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	shared := a[:0:0]
	for _, row := range a {
		if _, is := slices.BinarySearch(b, row); is {
			shared = append(shared, row)
		}
	}
	return shared
}

// pick returns those rows of a value, in memory of their own, or the whole of one that has exactly these.
func (v value) pick(rows []int) tensor.Tensor {
	if rows == nil || v.dim == tensor.NoBatch || v.rows != nil && slices.Equal(rows, v.rows) {
		return v.Tensor
	}
	ranges := make([]tensor.RowRange, 0, len(rows))
	for _, row := range rows {
		if v.rows != nil {
			row, _ = slices.BinarySearch(v.rows, row)
		}
		if last := len(ranges) - 1; last >= 0 && ranges[last].First+ranges[last].Rows == row {
			ranges[last].Rows++
			continue
		}
		ranges = append(ranges, tensor.RowRange{Tensor: v.Tensor, First: row, Rows: 1})
	}
	return joined(v.dim, len(rows), v.Tensor, ranges)
}

// joined returns the tensor of so many rows that has those of all ranges.
func joined(dim, rows int, like tensor.Tensor, ranges []tensor.RowRange) tensor.Tensor {
	if len(ranges) == 0 {
		return tensor.Tensor{DType: like.DType, Shape: like.Shape.With(dim, 0)}
	}
	data := make([]byte, tensor.JoinedSize(dim, ranges))
	tensor.JoinRows(data, dim, ranges)
	return tensor.Tensor{DType: like.DType, Shape: like.Shape.With(dim, int64(rows)), Data: data}
}

// finish gives the call its results. Rows that were left out have the defaults.
func (st *staged) finish() {
	outputs := st.call.Version.Signature.Outputs
	wanted := st.call.Wanted
	if wanted == nil {
		for o := range outputs {
			wanted = append(wanted, o)
		}
	}
	given := map[string]bool{}
	for _, o := range wanted {
		spec := &outputs[o]
		from := st.Outputs[spec.Name]
		v := *st.value(from)
		if v.rows == nil || v.dim == tensor.NoBatch && v.Data != nil {
			if given[from] { // each result has memory of its own
				v.Tensor = v.Clone()
			}
			given[from] = true
			st.call.Results = append(st.call.Results, v.Tensor)
			continue
		}
		v.dim = spec.BatchDim
		text := string(st.Defaults[spec.Name])
		row, of := defaultRow(spec, v, text), inputOf(st.call.Version.Signature, spec, text)
		var ranges []tensor.RowRange
		for i, next := 0, 0; i < st.call.Rows; i++ {
			switch {
			case next < len(v.rows) && v.rows[next] == i:
				ranges = append(ranges, tensor.RowRange{Tensor: v.Tensor, First: next, Rows: 1})
				next++
			case of >= 0:
				ranges = append(ranges, tensor.RowRange{Tensor: st.call.Inputs[of], First: i, Rows: 1})
			default:
				ranges = append(ranges, tensor.RowRange{Tensor: row, Rows: 1})
			}
		}
		st.call.Results = append(st.call.Results, joined(v.dim, st.call.Rows, row, ranges))
	}
}

// inputOf returns the place of the input whose rows an output has where they are left out; -1: it has a constant there.
func inputOf(sig *tensor.Signature, output *tensor.Spec, text string) int {
	if _, err := tensor.ParseElement(output.DType, text); err == nil {
		return -1
	}
	return sig.Input(text)
}

// defaultRow returns a row that holds a default, of the shape that rows of the output have.
func defaultRow(spec *tensor.Spec, v value, text string) tensor.Tensor {
	shape := slices.Clone(v.Shape)
	if v.Data == nil {
		shape = slices.Clone(spec.Shape)
		for i, n := range shape {
			shape[i] = max(n, 1) // checkStaged demands that it is known
		}
	}
	shape[v.dim] = 1
	t := tensor.Tensor{DType: spec.DType, Shape: shape}
	n, _ := shape.Elements()
	one, _ := tensor.ParseElement(spec.DType, text) // checkStaged has tried it
	for range n {
		t.Data = append(t.Data, one...)
	}
	return t
}
