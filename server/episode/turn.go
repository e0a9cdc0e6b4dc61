package episode

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
)

// Turn is a step that runs: no other of its episode does. One goroutine uses it.
type Turn struct {
	store *Store
	of    *session
	ask   Ask
	state []tensor.Tensor // that it begins with, where it is not fresh
	// Of Commit: what was there before, and whether no further step comes.
	before          past
	committed, last bool

	// Fresh: the episode begins with this step.
	Fresh bool
	// Kept is the answer to this step, which was answered before; nil: it is to run.
	Kept *Answer
	// Skipped is how many numbers there are between the latest step and this one.
	Skipped uint64
}

// take looks at the episode now that it is this step's turn. again: it is gone, and is to be looked for again.
func (t *Turn) take() (again bool, err error) {
	s, e, a := t.store, t.of, &t.ask
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.gone {
		return true, nil
	}
	switch {
	case a.Begin && e.over == WithStream: // it comes on another stream
		s.removeLocked(e, e.over)
		return true, nil
	case a.Step > 0 && a.Step == e.step && (!a.Begin || e.step == e.first):
		t.Kept = e.answer
		return false, nil
	case a.Begin && e.over != "":
		s.removeLocked(e, e.over)
		return true, nil
	case e.over != "":
		return false, &LostError{Key: a.Key, Why: e.over}
	case a.Begin && a.Step > 0 && a.Step <= e.first: // it may be a late copy of a first request
		return false, &StaleError{Key: a.Key, Step: a.Step, Latest: e.step}
	case a.Begin:
		t.Fresh, e.beginning = true, true
		return false, nil
	case a.Step > 0 && a.Step < e.step:
		return false, &StaleError{Key: a.Key, Step: a.Step, Latest: e.step}
	case a.Step == 0 && e.step > 0:
		return false, &tensor.FieldError{Field: "step", Want: "a number, as the steps before have", Got: "none"}
	}
	if err := t.goOn(); err != nil {
		return false, err
	}
	if !t.Fresh && !a.Brought && a.Rows != e.rows {
		return false, &tensor.FieldError{
			Field: "inputs", Want: fmt.Sprintf("%d rows, as the episode began with", e.rows), Got: strconv.Itoa(a.Rows),
		}
	}
	if a.Step > e.step+1 && e.step > 0 {
		t.Skipped = a.Step - e.step - 1
	}
	return false, nil
}

// goOn decides what the step begins with. Another version than the one before may not know its state. The caller holds
// the store's mu.
func (t *Turn) goOn() error {
	e, v := t.of, t.ask.Version
	state, same, fits := e.stateFor(v)
	switch change := v.EpisodeState.OnChange; {
	case !same && t.ask.Stay:
		return &LostError{Key: t.ask.Key, Of: e.of.Number}
	case fits && (same || change == catalog.CarryChange):
		t.state = state
	case change == catalog.ResetChange:
		t.Fresh = true
	default:
		return &LostError{Key: t.ask.Key, Of: e.of.Number}
	}
	return nil
}

// stateFor returns the state as the inputs of a version, which is the same as before or another. fits: it has a place
// for it.
func (p *past) stateFor(v *catalog.Version) (state []tensor.Tensor, same, fits bool) {
	same = p.of.Number == v.Number && p.of.Digest == v.Digest
	if same && p.of.EpisodeState == v.EpisodeState {
		return p.state, true, true
	}
	state, fits = carried(p.of, p.state, v)
	return state, same, fits
}

// carried returns the state that a version has given as the inputs of another; not ok: it does not fit.
func carried(from *catalog.Version, state []tensor.Tensor, to *catalog.Version) (all []tensor.Tensor, ok bool) {
	before := from.EpisodeState.Inputs
	if len(to.EpisodeState.Inputs) != len(before) {
		return nil, false
	}
	for _, in := range to.EpisodeState.Inputs {
		spec := &to.Signature.Inputs[in.Input]
		at := slices.IndexFunc(before, func(other catalog.StateInput) bool {
			was := &from.Signature.Inputs[other.Input]
			return was.Name == spec.Name && was.BatchDim == spec.BatchDim && other.Window == in.Window
		})
		if at < 0 || state[at].DType != spec.DType || len(state[at].Shape) != len(spec.Shape) {
			return nil, false
		}
		for k, n := range spec.Shape {
			if k != spec.BatchDim && n != tensor.Unknown && n != state[at].Shape[k] {
				return nil, false
			}
		}
		all = append(all, state[at])
	}
	return all, true
}

// first returns how many bytes the state of so many rows takes at the beginning of an episode.
func first(v *catalog.Version, rows int) (n int64) {
	for _, in := range v.EpisodeState.Inputs {
		size := int64(len(in.Initial.Data))
		if v.Signature.Inputs[in.Input].BatchDim != tensor.NoBatch {
			size *= int64(rows)
		}
		n += size
	}
	return n
}

// initial returns an input of so many rows at the beginning of an episode.
func initial(v *catalog.Version, in *catalog.StateInput, rows int) tensor.Tensor {
	one, dim := in.Initial, v.Signature.Inputs[in.Input].BatchDim
	if dim == tensor.NoBatch || rows == 1 {
		return one
	}
	ranges := make([]tensor.RowRange, rows)
	for r := range ranges {
		ranges[r] = tensor.RowRange{Tensor: one, Rows: 1}
	}
	data := make([]byte, tensor.JoinedSize(dim, ranges))
	tensor.JoinRows(data, dim, ranges)
	return tensor.Tensor{DType: one.DType, Shape: one.Shape.With(dim, int64(rows)), Data: data}
}

// Fill completes the inputs of the step with the state, where the request brings none. The inputs that it brings have
// as many rows as it was asked with. The error is a *tensor.FieldError.
func (t *Turn) Fill(inputs []tensor.Tensor) error {
	v, rows, begins := t.ask.Version, t.ask.Rows, t.Fresh
	for i := range v.EpisodeState.Inputs {
		in := &v.EpisodeState.Inputs[i]
		if newest := t.ask.Newest != nil && t.ask.Newest[i]; inputs[in.Input].DType != tensor.Invalid && !newest {
			begins = false // a model that is told of a beginning puts away its state, and so what has been sent
			continue
		}
		var kept tensor.Tensor
		if t.Fresh {
			kept = initial(v, in, rows)
		} else {
			kept = t.state[i]
		}
		if in.Output < 0 {
			kept = pushed(kept, inputs[in.Of], rows)
		}
		inputs[in.Input] = kept
	}
	return t.ask.control(inputs, begins)
}

// Control fills the inputs that tell the model about a request that needs no turn. The error is a *tensor.FieldError.
func (a *Ask) Control(inputs []tensor.Tensor) error { return a.control(inputs, false) }

// control fills the inputs that tell the model about a request, where it does not bring them.
func (a *Ask) control(inputs []tensor.Tensor, begins bool) error {
	for _, c := range a.Version.EpisodeState.Controls {
		if inputs[c.Input].DType != tensor.Invalid {
			continue
		}
		text := "0"
		switch is := c.Kind == catalog.ReadyControl || c.Kind == catalog.StartControl && begins ||
			c.Kind == catalog.EndControl && a.Last; {
		case c.Kind == catalog.IDControl:
			text = a.Episode
		case is:
			text = "1"
		}
		spec := &a.Version.Signature.Inputs[c.Input]
		var err error
		if inputs[c.Input], err = filled(spec, a.Rows, text); err != nil {
			return &tensor.FieldError{
				Field: "episode_id", Want: fmt.Sprintf("a number of type %v, which the model's input %q takes", spec.DType,
					spec.Name), Got: strconv.Quote(a.Episode),
			}
		}
	}
	return nil
}

// pushed returns a window without its oldest value, and with one more. Rows are the outermost dimension of both, and
// values lie one behind the other in each.
func pushed(window, value tensor.Tensor, rows int) tensor.Tensor {
	window, value = whole(window), whole(value)
	data := make([]byte, 0, len(window.Data))
	row, unit := len(window.Data)/rows, len(value.Data)/rows
	for r := range rows {
		data = append(data, window.Data[r*row+unit:(r+1)*row]...)
		data = append(data, value.Data[r*unit:(r+1)*unit]...)
	}
	return tensor.Tensor{DType: window.DType, Shape: window.Shape, Data: data}
}

// whole returns a tensor that lies in one piece.
func whole(t tensor.Tensor) tensor.Tensor {
	if t.Pieces != nil {
		t = t.Clone()
	}
	return t
}

// filled returns an input whose elements are all one number.
func filled(spec *tensor.Spec, rows int, number string) (tensor.Tensor, error) {
	shape := slices.Clone(spec.Shape)
	for i := range shape {
		shape[i] = max(shape[i], 1)
	}
	if spec.BatchDim != tensor.NoBatch {
		shape[spec.BatchDim] = int64(rows)
	}
	if spec.DType == tensor.Bool {
		number = strconv.FormatBool(number == "1")
	}
	one, err := tensor.ParseElement(spec.DType, number)
	n, _ := shape.Elements()
	return tensor.Tensor{DType: spec.DType, Shape: shape, Data: slices.Repeat(one, int(n))}, err
}

// Commit puts the state after the step in the place of the one before; Revert undoes it until Leave. inputs are what it
// ran with; outputs, which the turn takes over, are those of EpisodeState.Inputs, the zero value where one has none.
// answer is kept for retries if the step has a number. last: no further step comes. After an error, a *FullError,
// nothing has changed.
func (t *Turn) Commit(inputs, outputs []tensor.Tensor, answer *Answer, last bool) error {
	a := &t.ask
	next := past{of: a.Version, rows: a.Rows, step: a.Step, answered: true}
	if a.Step > 0 {
		next.answer = answer
	}
	if !last { // else nobody is going to ask for the state
		next.state = stateAfter(a.Version, a.Rows, inputs, outputs)
	}
	s, e := t.store, t.of
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.gone || e.over != "" { // its stream has ended
		return nil
	}
	if grown := next.bytes() - e.held; grown > 0 && !s.hasRoomLocked(grown) {
		if !last {
			return &FullError{Key: a.Key, Bytes: s.firmLocked(), Need: grown, Memory: s.config.Memory}
		}
		next.answer = nil
	}
	s.marks++
	next.first, next.stream, next.steps, next.mark = e.first, e.stream, e.steps+1, s.marks
	if t.Fresh {
		next.first, next.stream, next.steps = a.Step, nil, 1
		if a.Version.EpisodeState.OfStream {
			next.stream = a.Stream
		}
	}
	t.before, t.committed, t.last = e.past, true, last
	e.past = next
	s.accountLocked(e)
	return nil
}

// At returns the number of the episode, and how many steps of it were answered since it began, this one included: 0 for
// a retry. Both are 0 for a step that changed nothing.
func (t *Turn) At() (number, steps int64) {
	switch {
	case t.Kept != nil:
		return t.of.number, 0
	case t.committed:
		return t.of.number, t.of.steps
	}
	return 0, 0
}

// stateAfter returns the state after a step, which ran with these inputs and gave these outputs of EpisodeState.Inputs,
// whose places it takes.
func stateAfter(v *catalog.Version, rows int, inputs, outputs []tensor.Tensor) []tensor.Tensor {
	for i, in := range v.EpisodeState.Inputs {
		switch {
		case in.Output < 0:
			outputs[i] = inputs[in.Input].Clone() // it may be the caller's memory
		case in.Window > 0:
			outputs[i] = pushed(inputs[in.Input], outputs[i], rows)
		}
	}
	return outputs
}

// Revert undoes Commit: the answer did not come about.
func (t *Turn) Revert() {
	s, e := t.store, t.of
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.committed && !e.gone && e.over == "" {
		e.past = t.before
		s.accountLocked(e)
	}
	t.committed = false
}

// End ends the episode after a retry of its latest step.
func (t *Turn) End() {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	t.store.endLocked(t.of, ByRequest)
}

// Leave gives the turn to the next step. An episode whose first step was not answered is not there. The state that was
// replaced goes back to the memory that outputs are of, unless that is nil: nobody reads the inputs of the step any
// more.
func (t *Turn) Leave(memory tensor.Memory) {
	s, e := t.store, t.of
	s.mu.Lock()
	e.beginning = false
	if t.committed && t.ask.Begin && t.before.answered {
		s.ended[Ending{e.key.Model, Again}]++
	}
	e.used = time.Now()
	switch {
	case !e.answered:
		s.removeLocked(e, "")
	case !t.committed:
	case t.last && e.answer == nil:
		s.removeLocked(e, ByRequest)
	case t.last:
		s.endLocked(e, ByRequest)
	case e.idle != t.ask.Version.EpisodeState.Idle:
		e.idle = t.ask.Version.EpisodeState.Idle
		e.timer.Reset(e.idle)
	}
	s.mu.Unlock()
	t.release()
	if t.committed && memory != nil {
		for _, replaced := range t.before.state {
			memory.Put(&replaced.Data)
		}
	}
}

func (t *Turn) release() { t.of.turn <- struct{}{} }
