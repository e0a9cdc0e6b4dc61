package structure

import (
	"maps"
	"slices"

	"github.com/weftserve/weft/proto/gen/onnx"
)

// loop runs its graph until a count is reached or a condition ends it, neither of which may depend on rows. What one
// turn hands to the next is widened until a turn changes nothing that is known of it, so that it holds for every turn.
func loop(c *call) []*value {
	g, ok := c.body("body")
	if !ok {
		return nil
	}
	for i := range min(2, len(c.in)) {
		if v := c.in[i]; v != nil && v.kind != shared {
			c.differs(i)
			return nil
		}
	}
	carried := len(c.in) - 2
	if carried < 0 || len(g.GetOutput()) < 1+carried {
		return c.no("its graph does not fit its inputs")
	}
	for i := 2; i < len(c.in); i++ {
		if c.in[i] == nil {
			return c.no("it lacks its input %d", i)
		}
	}
	states, made, ok := c.turns(g, c.in[2:], []*value{sharedOf(nil), sharedOf(nil)}, nil,
		func(made []*value) ([]*value, bool) {
			if made[0].kind != shared {
				return nil, c.bad("how long it runs depends on rows, or on how many there are")
			}
			return made[1 : 1+carried], true
		})
	if !ok {
		return nil
	}
	outs := c.leave(states, made[1+carried:], nil)
	if !slices.ContainsFunc(c.in[:2], func(v *value) bool { return v != nil && !v.positive() }) {
		return outs
	}
	// Without a turn the engine may give what each turn gives another number of dimensions.
	for i := carried; i < len(outs); i++ {
		outs[i] = &value{
			kind: mixed,
			why:  &cause{operator: operatorName(c.node), reason: "whether it makes a turn at all is not known"},
		}
	}
	return outs
}

// turns finds what holds of the carried values before every turn and after the last, and returns it with what the graph
// makes of it. The inputs of the graph are those before, the carried ones and those after; next picks what is handed on
// from what it makes.
func (c *call) turns(
	g *onnx.GraphProto, carried, before, after []*value, next func(made []*value) ([]*value, bool),
) (states, made []*value, ok bool) {
	c.p.loops++
	defer func() { c.p.loops-- }()
	states = make([]*value, len(carried))
	for i, v := range carried {
		own := *v
		own.loose = nil // of a loop around this one
		states[i] = &own
	}
	for {
		// Symbols are made anew for each turn looked at: the sizes of one turn say nothing of those of another.
		if made, ok = c.enter(g, slices.Concat(before, states, after)); !ok {
			if c.why != nil {
				// there may be no turn, and so no refusal
				c.why = &cause{operator: c.why.operator, reason: c.why.reason}
			}
			return nil, nil, false
		}
		handed, ok := next(made)
		if !ok {
			return nil, nil, false
		}
		changed := false
		for i, v := range handed {
			wider, ok := c.widened(states[i], v)
			if !ok {
				return nil, nil, false
			}
			changed = changed || wider != states[i]
			states[i] = wider
		}
		if !changed {
			return states, made, true
		}
	}
}

// widened is the state itself where what a turn makes of it is nothing new, else a state that covers both. A dimension
// that changes is marked by being a symbol of its own, which covers every size.
func (c *call) widened(state, made *value) (*value, bool) {
	if state.kind == rows || made.kind == rows {
		if state.kind != made.kind || state.axis != made.axis || state.rank() != made.rank() || !state.dealtAs(made) {
			return nil, c.bad("which rows a value has that it hands from turn to turn changes")
		}
	}
	wider := *state
	changed := false
	if made.kind > state.kind {
		wider.kind, changed = made.kind, true
	}
	if state.ranked && (!made.ranked || state.rank() != made.rank()) {
		if wider.kind != shared {
			return nil, c.bad("how many dimensions a value has that it hands from turn to turn changes")
		}
		return &value{}, true
	}
	wider.dims = slices.Clone(state.dims)
	for i, d := range wider.dims {
		if !d.equal(made.dims[i]) && !state.loose[i] {
			wider.loose = maps.Clone(wider.loose)
			if wider.loose == nil {
				wider.loose = map[int]bool{}
			}
			wider.dims[i], wider.loose[i], changed = c.fresh(), true, true
		}
	}
	if state.elems != nil && !slices.EqualFunc(state.elems, made.elems, sameElem) {
		wider.elems, changed = nil, true
	}
	if state.floats != nil {
		wider.floats, changed = nil, true
	}
	if !changed {
		return state, true
	}
	return &wider, true
}

func sameElem(e, f elem) bool { return e.known && f.known && e.equal(f.dim) }

// leave makes outputs of what was handed on, and of what each turn gave, stacked along the axes given (0 where none
// are).
func (c *call) leave(states, given []*value, axes []int64) []*value {
	outs := make([]*value, 0, len(states)+len(given))
	for i, v := range slices.Concat(states, given) {
		if !v.ranked && v.kind != shared {
			return c.no("how many dimensions an output has is not known")
		}
		out := like(v, nil, v.axis)
		out.ranked = v.ranked
		for at, d := range v.dims {
			switch n, fixed := d.fixed(); {
			case v.holds(at):
				out.dims = append(out.dims, d)
			case fixed && i >= len(states):
				out.dims = append(out.dims, size(n))
			default: // the size of some turn
				out.dims = append(out.dims, c.fresh())
			}
		}
		if i >= len(states) && v.ranked {
			axis := int64(0)
			if i-len(states) < len(axes) {
				axis = axes[i-len(states)]
			}
			at, ok := c.place(axis, v.rank()+1)
			if !ok {
				return nil
			}
			out.dims = slices.Insert(out.dims, at, c.fresh())
			if v.kind == rows && at <= out.axis {
				out.axis++
			}
		}
		outs = append(outs, out)
	}
	return outs
}

// scan runs its graph for each entry along an axis of some inputs, which may not be that of their rows.
func scan(c *call) []*value {
	g, ok := c.body("body")
	if !ok {
		return nil
	}
	if c.version < 9 {
		return c.no("there is no rule for it before operator set 9")
	}
	scanned, ok := c.integer("num_scan_inputs", 0)
	if !ok {
		return nil
	}
	inAxes, ok := c.integers("scan_input_axes")
	if !ok {
		return nil
	}
	outAxes, ok := c.integers("scan_output_axes")
	if !ok {
		return nil
	}
	carried := int64(len(c.in)) - scanned
	if scanned < 1 || carried < 0 || int64(len(g.GetOutput())) < carried {
		return c.no("its graph does not fit its inputs")
	}
	entries := make([]*value, 0, scanned)
	for i := int(carried); i < len(c.in); i++ {
		v, ok := c.data(i)
		if !ok {
			return nil
		}
		axis := int64(0)
		if k := i - int(carried); k < len(inAxes) {
			axis = inAxes[k]
		}
		at, ok := c.place(axis, v.rank())
		if !ok {
			return nil
		}
		if v.holds(at) {
			return c.meets(i, "runs along")
		}
		entry := like(v, slices.Delete(slices.Clone(v.dims), at, at+1), v.axis)
		if at < entry.axis {
			entry.axis--
		}
		entries = append(entries, entry)
	}
	for i := range int(carried) {
		if c.in[i] == nil {
			return c.no("it lacks its input %d", i)
		}
	}
	states, made, ok := c.turns(g, c.in[:carried], nil, entries,
		func(made []*value) ([]*value, bool) { return made[:carried], true })
	if !ok {
		return nil
	}
	return c.leave(states, made[carried:], outAxes)
}
