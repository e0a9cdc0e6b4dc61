package serving

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

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

// checkStaged judges a pipeline whose steps leave rows out by what the joined model gives.
func (v *Version) checkStaged(sig *tensor.Signature, batched bool) error {
	p := v.staged()
	if p == nil || len(p.Defaults) == 0 {
		return nil
	}
	wrong := func(name, format string, args ...any) error {
		return fmt.Errorf("%s: outputs.%s: %s", v.From.Path(), name, fmt.Sprintf(format, args...))
	}
	for name, text := range p.Defaults {
		o := sig.Output(name)
		if o < 0 {
			return wrong(name, "it is not served: its elements have a type that Weft does not serve; take it away")
		}
		spec := &sig.Outputs[o]
		if !batched || spec.BatchDim == tensor.NoBatch {
			return wrong(name, "its rows are not shown to be independent, so that none can be left out; take the conditions "+
				"(when) away, or have `weft check` say what stands in the way")
		}
		for i, n := range spec.Shape {
			if i != spec.BatchDim && n == tensor.Unknown {
				return wrong(name, "dimension %d of %v varies, and rows that are left out need a size; export the model of the "+
					"step with that size", i, spec.Shape)
			}
		}
		if _, err := tensor.ParseElement(spec.DType, string(text)); err != nil {
			return wrong(name, "the default: %v", err)
		}
	}
	return nil
}

// stage is the version that answers a step, which is kept from being closed.
type stage struct {
	public *catalog.Version
	held   *Version
	gives  []int         // the slots of its outputs
	ran    atomic.Uint64 // the share of a request's rows that it runs for, as learned; the bits of a float64
}

// stages are those of a pipeline, and where in a request's values each is, by its name in the pipeline.
type stages struct {
	steps []*stage
	slots map[string]int
	flow  string // that requests are charged to
}

// expects returns how many of a request's rows the step is expected to run for: one of them at least.
func (s *stage) expects(rows int) int {
	return max(1, int(math.Ceil(math.Float64frombits(s.ran.Load())*float64(rows))))
}

// learn notes for how many of a request's rows the step ran. Two at a time may miss one of them.
func (s *stage) learn(ran, rows int) {
	before := math.Float64frombits(s.ran.Load())
	s.ran.Store(math.Float64bits(before + (float64(ran)/float64(rows)-before)/learning))
}

// takeSteps waits until the versions that a staged pipeline asks are ready, from the files that it was read with, and
// keeps them from being closed until letSteps. One that is unloaded waits for drainPatience.
func (v *Version) takeSteps(ctx context.Context) error {
	p := v.staged()
	if p == nil || v.stages.Load() != nil {
		return nil
	}
	taken := &stages{slots: map[string]int{}, flow: flowName(v.Model, v.Number, v.From.Manifest.Fairness)}
	for i := range p.Steps {
		step := &p.Steps[i]
		s, err := v.takeStep(ctx, step)
		if err == nil {
			err = checkCondition(p, i, taken.steps)
		}
		if err != nil {
			taken.letGo()
			return fmt.Errorf("%s: step %q: %w", v.From.Path(), step.Name, err)
		}
		for _, from := range step.Inputs {
			taken.slot(from) // of the pipeline's inputs; the others are there
		}
		for _, out := range s.public.Signature.Outputs {
			s.gives = append(s.gives, taken.slot(step.Name+"."+out.Name))
		}
		taken.steps = append(taken.steps, s)
	}
	v.stages.Store(taken)
	return nil
}

// stepPatience is how long a step may be absent, which should come with the pipeline.
const stepPatience = 5 * time.Second

func (v *Version) takeStep(ctx context.Context, step *modelrepo.Step) (*stage, error) {
	owner, began := v.shared.Owner, time.Now()
	for {
		changed := owner.Changed(step.Model)
		public := owner.Step(step.Model, step.Version)
		var late <-chan time.Time // nil: it is there, and may take its time
		switch {
		case public == nil && time.Since(began) >= stepPatience:
			return nil, fmt.Errorf("version %d of model %s is not served; load it (weft load %s %d), or have "+
				"versions.policy select it", step.Version, step.Model, step.Model, step.Version)
		case public == nil:
			late = time.After(stepPatience - time.Since(began))
		case public.State == catalog.Failed, public.Cause != "":
			return nil, fmt.Errorf("version %d of model %s cannot be loaded: %s", step.Version, step.Model, public.Cause)
		case public.State == catalog.Ready:
			held, _ := public.Resident.(*Version)
			if held != nil && held.From.Version.Fingerprint == step.Of.Fingerprint && held.hold() {
				s := &stage{public: public, held: held}
				s.ran.Store(math.Float64bits(1))
				return s, nil
			}
		}
		select {
		case <-changed:
		case <-late:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// letSteps gives up what takeSteps has kept.
func (v *Version) letSteps() {
	if taken := v.stages.Swap(nil); taken != nil {
		taken.letGo()
	}
}

func (s *stages) letGo() {
	for _, s := range s.steps {
		s.held.letGo()
	}
}

// slot returns the place of the value of that name, which is a new one the first time.
func (s *stages) slot(name string) int {
	at, is := s.slots[name]
	if !is {
		at = len(s.slots)
		s.slots[name] = at
	}
	return at
}

// hold keeps a version from being closed until letGo; false: it takes requests no more.
func (v *Version) hold() bool {
	v.holds.Add(1)
	if v.Ready.Load() {
		return true
	}
	v.letGo()
	return false
}

func (v *Version) letGo() { v.holds.Add(-1) }

// Held reports whether a pipeline asks the version as a step.
func (v *Version) Held() bool { return v.holds.Load() > 0 }

// unheld waits until nobody holds a version that takes requests no more, or ctx has ended, or its devices are lost, so
// that nobody can ask it.
func (v *Version) unheld(ctx context.Context) {
	for !v.Ready.Load() && v.Held() && v.Pick(1) != nil && ctx.Err() == nil {
		time.Sleep(holdPause)
	}
}

// drainPatience is how long a version that goes waits for pipelines which ask it. Loads may wait for its end, those of
// the pipelines too.
const drainPatience = 10 * time.Second

// holdPause is between two looks at who holds a version.
const holdPause = 2 * time.Millisecond

// checkCondition judges the output that the condition of a step looks at, by the versions of the steps before.
func checkCondition(p *modelrepo.Pipeline, i int, stages []*stage) error {
	when := p.Steps[i].When
	if when == nil {
		return nil
	}
	name, output, _ := p.StepOf(when.Output)
	at := slices.IndexFunc(p.Steps, func(s modelrepo.Step) bool { return s.Name == name })
	sig := stages[at].public.Signature
	o := sig.Output(output)
	if o < 0 {
		return fmt.Errorf("when: %s is not served by step %q", when.Output, name)
	}
	spec := &sig.Outputs[o]
	one := spec.DType != tensor.String && spec.BatchDim != tensor.NoBatch
	for k, n := range spec.Shape {
		one = one && (k == spec.BatchDim || n == 1)
	}
	if !one {
		return fmt.Errorf("when: %s is %v %v; expected one number, true or false for each row: have the model of step %q "+
			"give that", when.Output, spec.DType, spec.Shape, name)
	}
	return nil
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
	if now == nil || now.staged() == nil || !now.hold() {
		return fmt.Errorf("model %q version %d: %w", call.Version.Model, call.Version.Number, catalog.ErrNotReady)
	}
	defer now.letGo()
	taken := now.stages.Load()
	if taken == nil { // its last session was closed meanwhile
		return fmt.Errorf("model %q version %d: %w", now.Model, now.Number, catalog.ErrNotReady)
	}
	m := now.From.Manifest
	st := &staged{
		Pipeline: now.staged(), shared: s, call: call, way: s.Begin(call), stages: taken,
		payer:  payer{taken.flow, cmp.Or(call.Version.Weight, m.Weight), m.Fairness == modelrepo.FairIdentity},
		values: make([]value, len(taken.slots)),
	}
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
	for n := range step.Repeat {
		if results, err = st.ask(ctx, i, step.Repeat-n, inputs); err != nil {
			return err
		}
		for in, out := range step.Carry {
			inputs[at[in]] = results[sig.Output(out)]
		}
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
	a := st.shared.Begin(sub)
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
		row := defaultRow(spec, v, string(st.Defaults[spec.Name]))
		var ranges []tensor.RowRange
		for i, next := 0, 0; i < st.call.Rows; i++ {
			if next < len(v.rows) && v.rows[next] == i {
				ranges = append(ranges, tensor.RowRange{Tensor: v.Tensor, First: next, Rows: 1})
				next++
			} else {
				ranges = append(ranges, tensor.RowRange{Tensor: row, Rows: 1})
			}
		}
		st.call.Results = append(st.call.Results, joined(v.dim, st.call.Rows, row, ranges))
	}
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
