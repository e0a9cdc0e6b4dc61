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
	ask   *Ask
	rows  int

	// Fresh: the episode begins with this step.
	Fresh bool
	// Kept is the answer to this step, which was answered before; nil: it is to run.
	Kept *Answer
	// Skipped is how many numbers there are between the latest step and this one.
	Skipped uint64
}

// take looks at the episode now that it is this step's turn. again: it is gone, and is to be looked for again.
func (t *Turn) take() (again bool, err error) {
	s, e, a := t.store, t.of, t.ask
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.gone {
		return true, nil
	}
	e.used = time.Now()
	retry := a.Step > 0 && a.Step == e.step
	switch {
	case retry && (!a.Begin || e.step == e.first):
		t.Kept = e.answer
		return false, nil
	case a.Begin && e.over != "":
		s.removeLocked(e, e.over)
		return true, nil
	case e.over != "":
		return false, &LostError{Key: a.Key, Why: e.over}
	case a.Begin:
		t.Fresh = true
		return false, nil
	case a.Step > 0 && a.Step < e.step:
		return false, &StaleError{Key: a.Key, Step: a.Step, Latest: e.step}
	}
	if err := t.sameVersion(); err != nil {
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

// sameVersion decides what becomes of the episode if another version is to answer it now. The caller holds the store's
// mu.
func (t *Turn) sameVersion() error {
	e, v := t.of, t.ask.Version
	if e.version == v.Number && e.digest == v.Digest {
		return nil
	}
	state := v.EpisodeState
	switch {
	case state.OnChange == catalog.ResetChange:
		t.Fresh = true
		return nil
	case state.OnChange == catalog.CarryChange && fits(state, e.state, v.Signature):
		return nil
	}
	t.store.removeLocked(e, Version)
	return &LostError{Key: t.ask.Key, Why: Version}
}

// fits reports whether kept tensors are inputs of a version.
func fits(state *catalog.EpisodeState, kept []tensor.Tensor, sig *tensor.Signature) bool {
	if len(kept) != len(state.Inputs) {
		return false
	}
	for i, in := range state.Inputs {
		spec := &sig.Inputs[in.Input]
		if kept[i].DType != spec.DType || len(kept[i].Shape) != len(spec.Shape) {
			return false
		}
		for k, n := range spec.Shape {
			if k != spec.BatchDim && n != tensor.Unknown && n != kept[i].Shape[k] {
				return false
			}
		}
	}
	return true
}

// initial returns the state of so many rows at the beginning of an episode.
func initial(v *catalog.Version, rows int) (all []tensor.Tensor) {
	for _, in := range v.EpisodeState.Inputs {
		one, dim := in.Initial, v.Signature.Inputs[in.Input].BatchDim
		if dim == tensor.NoBatch || rows == 1 {
			all = append(all, one)
			continue
		}
		ranges := make([]tensor.RowRange, rows)
		for r := range ranges {
			ranges[r] = tensor.RowRange{Tensor: one, Rows: 1}
		}
		data := make([]byte, tensor.JoinedSize(dim, ranges))
		tensor.JoinRows(data, dim, ranges)
		all = append(all, tensor.Tensor{DType: one.DType, Shape: one.Shape.With(dim, int64(rows)), Data: data})
	}
	return all
}

// Fill completes the inputs of the step with the state, where the request brings none.
func (t *Turn) Fill(inputs []tensor.Tensor) {
	state := t.ask.Version.EpisodeState
	kept := t.of.state
	if t.Fresh {
		kept = initial(t.ask.Version, t.rows)
	}
	for i, in := range state.Inputs {
		if inputs[in.Input].DType != tensor.Invalid {
			continue
		}
		if inputs[in.Input] = kept[i]; in.Output < 0 {
			inputs[in.Input] = pushed(kept[i], inputs[in.Of], t.rows)
		}
	}
	if at := state.Start; at >= 0 && inputs[at].DType == tensor.Invalid {
		inputs[at] = flag(&t.ask.Version.Signature.Inputs[at], t.rows, t.Fresh)
	}
}

// pushed returns a window without its oldest value, and with one more. Rows are the outermost dimension of both, and
// values lie one behind the other in each.
func pushed(window, value tensor.Tensor, rows int) tensor.Tensor {
	value = value.Clone() // it may lie in pieces
	data := make([]byte, 0, len(window.Data))
	row, unit := len(window.Data)/rows, len(value.Data)/rows
	for r := range rows {
		data = append(data, window.Data[r*row+unit:(r+1)*row]...)
		data = append(data, value.Data[r*unit:(r+1)*unit]...)
	}
	return tensor.Tensor{DType: window.DType, Shape: window.Shape, Data: data}
}

// flag returns the input that says whether an episode begins.
func flag(spec *tensor.Spec, rows int, is bool) tensor.Tensor {
	shape := slices.Clone(spec.Shape)
	for i := range shape {
		shape[i] = max(shape[i], 1)
	}
	if spec.BatchDim != tensor.NoBatch {
		shape[spec.BatchDim] = int64(rows)
	}
	text := "0"
	switch {
	case is && spec.DType == tensor.Bool:
		text = "true"
	case spec.DType == tensor.Bool:
		text = "false"
	case is:
		text = "1"
	}
	one, _ := tensor.ParseElement(spec.DType, text) // it holds numbers
	n, _ := shape.Elements()
	return tensor.Tensor{DType: spec.DType, Shape: shape, Data: slices.Repeat(one, int(n))}
}

// Commit puts the state after the step in the place of the one before. inputs are what it ran with; outputs are
// those of EpisodeState.Inputs, the zero value where one has none. answer is kept for retries if the step has a number.
// last: no further step comes. After an error, a *FullError, nothing has changed.
func (t *Turn) Commit(inputs, outputs []tensor.Tensor, answer *Answer, last bool) error {
	state := t.ask.Version.EpisodeState
	next := make([]tensor.Tensor, len(state.Inputs))
	for i, in := range state.Inputs {
		switch {
		case in.Output < 0:
			next[i] = inputs[in.Input]
		case in.Window > 0:
			next[i] = pushed(inputs[in.Input], outputs[i], t.rows)
		default:
			next[i] = outputs[i]
		}
		if in.Output < 0 || next[i].Pieces != nil {
			next[i] = next[i].Clone() // it may be the caller's memory
		}
	}
	if t.ask.Step == 0 {
		answer = nil
	}
	s, e := t.store, t.of
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.gone { // its stream has ended
		return nil
	}
	need := sizeOf(next) + answer.size()
	if grown := need - e.bytes; grown > 0 && s.bytes+grown > s.config.Memory && !last {
		return &FullError{Key: t.ask.Key, Bytes: s.bytes, Need: grown, Memory: s.config.Memory}
	}
	if t.Fresh && e.answered {
		s.ended[Ending{e.key.Model, Again}]++
	}
	if t.Fresh {
		e.first = t.ask.Step
		e.stream = nil
		if state.OfStream {
			e.stream = t.ask.Stream
		}
	}
	e.state, e.rows, e.step, e.answer, e.answered = next, t.rows, t.ask.Step, answer, true
	e.version, e.digest, e.idle, e.used = t.ask.Version.Number, t.ask.Version.Digest, state.Idle, time.Now()
	s.accountLocked(e)
	switch {
	case last && answer == nil:
		s.removeLocked(e, ByRequest)
	case last:
		s.endLocked(e, ByRequest)
	}
	return nil
}

// Leave gives the turn to the next step. An episode whose first step was not answered is not there.
func (t *Turn) Leave() {
	t.store.mu.Lock()
	if !t.of.answered {
		t.store.removeLocked(t.of, "")
	}
	t.store.mu.Unlock()
	t.release()
}

func (t *Turn) release() { t.of.turn <- struct{}{} }
