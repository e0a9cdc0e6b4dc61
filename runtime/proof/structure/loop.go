package structure

import (
	"maps"
	"slices"

	"github.com/weftserve/weft/proto/gen/onnx"
)

// loop runs its graph until a count is reached or a condition ends it; neither may depend on rows. The values
// that one turn hands to the next are widened until a turn changes no known fact about them, so that the facts hold for
// every turn.
func loop(c *call) []*value {
	g := c.body("body")
	carried := len(c.in) - 2
	if carried < 0 || len(g.GetOutput()) < 1+carried {
		return c.no("its graph does not fit its inputs")
	}
	for i := 2; i < len(c.in); i++ {
		c.given(i)
	}
	runs := !slices.ContainsFunc(c.in[:2], func(v *value) bool { return v != nil && !v.positive() })
	before := symbol(len(c.p.symbols))
	states, made := c.turns(g, c.in[2:], []*value{sharedOf(nil), sharedOf(nil)}, nil, 1, runs)
	if once := c.in[0] != nil && len(c.in[0].elems) == 1 && c.in[0].elems[0].known && c.in[0].elems[0].is(1); !once {
		c.unlike(made[1+carried:], before)
	}
	outs := c.leave(states, made[1+carried:], nil)
	if !runs {
		// Without a turn the engine may give the stacked results of its turns another number of dimensions.
		copy(outs[carried:], spoiled(outs[carried:],
			c.cause("whether it makes a turn at all is not known")))
	}
	doubt := c.doubt(0).or(c.doubt(1))
	if ends := made[0]; ends.kind != shared {
		doubt = ends.why.or(doubt).or(c.cause("how long it runs depends on rows, or on how many there are"))
	}
	return spoiled(outs, doubt)
}

// unlike makes values mixed that are not known to be of one shape in all turns, because of symbols not older than that.
// ONNX Runtime puts one behind the other as they lie in memory.
func (c *call) unlike(made []*value, before symbol) {
	for i, v := range made {
		if v.kind == rows && v.axis > 0 && slices.ContainsFunc(v.dims, func(d dim) bool { return d.since(before) }) {
			made[i] = &value{
				kind: mixed, why: c.cause("whether the results of its turns are of one shape is not known"),
			}
		}
	}
}

// turns finds the facts that hold for the carried values before every turn and after the last, and returns them with
// the graph's results for them. The inputs of the graph are those before, the carried ones and those after; the values
// to hand on are its results from the one at first on. It runs where it is known to make a turn.
func (c *call) turns(
	g *onnx.GraphProto, carried, before, after []*value, first int, runs bool,
) (states, made []*value) {
	c.p.loops++
	defer func() { c.p.loops-- }()
	states = make([]*value, len(carried))
	for i, v := range carried {
		own := *v
		own.loose = nil // of a loop around this one
		states[i] = &own
	}
	for ; ; runs = false {
		// New symbols are made for each turn looked at: the sizes of one turn say nothing of those of another.
		made = c.enter(g, slices.Concat(before, states, after))
		if runs && refused(made) {
			c.because(causeOf(made))
		}
		for i, v := range made {
			if v.kind == mixed && v.why.refused { // there may be no turn, and so no refusal
				made[i] = &value{kind: mixed, why: &cause{operator: v.why.operator, reason: v.why.reason}}
			}
		}
		changed := false
		for i, state := range states {
			wider := state
			if why := c.reasonOf(func() { wider = c.widened(state, made[first+i]) }); why != nil {
				wider = &value{kind: mixed, why: why}
			}
			changed = changed || wider != state
			states[i] = wider
		}
		if !changed {
			return states, made
		}
	}
}

// widened is the state itself where the result of a turn adds nothing to it, else a state that covers both. A dimension
// that changes is marked by being a symbol of its own, which covers every size.
func (c *call) widened(state, made *value) *value {
	if why := made.why.or(state.why); why != nil {
		if why == state.why {
			return state
		}
		return &value{kind: mixed, why: why}
	}
	if !state.laidOutAs(made) {
		c.no("which rows a value has that it hands from turn to turn changes")
	}
	wider := *state
	changed := false
	if made.kind > state.kind || made.own && !state.own {
		wider.kind, wider.own, changed = max(made.kind, state.kind), made.own || state.own, true
	}
	if state.ranked && (!made.ranked || state.rank() != made.rank()) {
		if wider.kind != shared {
			c.no("how many dimensions a value has that it hands from turn to turn changes")
		}
		return &value{}
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
		return state
	}
	return &wider
}

func sameElem(e, f elem) bool {
	return e.known && f.known && e.equal(f.dim) && e.narrow == f.narrow && e.peak.equal(f.peak)
}

// leave makes outputs of the values that were handed on, and of the results of each turn, stacked along the axes given
// (0 where none are).
func (c *call) leave(states, given []*value, axes []int64) []*value {
	outs := make([]*value, 0, len(states)+len(given))
	for i, v := range slices.Concat(states, given) {
		if v.kind == mixed {
			outs = append(outs, v)
			continue
		}
		if !v.ranked && v.kind != shared {
			outs = append(outs, spoiled([]*value{v}, c.cause("how many dimensions an output has is not known"))...)
			continue
		}
		out := like(v, nil, v.axis)
		out.ranked = v.ranked
		for at, d := range v.dims {
			if _, fixed := d.fixed(); !v.holds(at) && !(fixed && i >= len(states)) {
				d = c.fresh() // the size of some turn
			}
			out.dims = append(out.dims, d)
		}
		if i >= len(states) && v.ranked {
			axis := int64(0)
			if i-len(states) < len(axes) {
				axis = axes[i-len(states)]
			}
			out = out.added(c.place(axis, v.rank()+1), c.fresh())
		}
		outs = append(outs, out)
	}
	return outs
}

// scan runs its graph for each entry along an axis of some inputs, which may not be that of their rows.
func scan(c *call) []*value {
	g := c.body("body")
	if c.version < 9 {
		return c.no("there is no rule for it before operator set 9")
	}
	scanned := c.integer("num_scan_inputs", 0)
	inAxes := c.integers("scan_input_axes")
	outAxes := c.integers("scan_output_axes")
	carried := int64(len(c.in)) - scanned
	if scanned < 1 || carried < 0 || int64(len(g.GetOutput())) < carried {
		return c.no("its graph does not fit its inputs")
	}
	entries, runs := make([]*value, 0, scanned), false
	for i := int(carried); i < len(c.in); i++ {
		axis := int64(0)
		if k := i - int(carried); k < len(inAxes) {
			axis = inAxes[k]
		}
		entry, turns := c.entry(i, axis)
		entries, runs = append(entries, entry), runs || c.p.extentOf(turns).positive
	}
	for i := range int(carried) {
		c.given(i)
	}
	states, made := c.turns(g, c.in[:carried], nil, entries, 0, runs)
	return c.leave(states, made[carried:], outAxes)
}

// entry is what the graph gets of an input that is scanned along an axis, and how many of them there are.
func (c *call) entry(i int, axis int64) (entry *value, turns dim) {
	entry = c.input(i)
	if entry != nil && entry.kind == mixed {
		return entry, c.fresh()
	}
	if why := c.reasonOf(func() {
		v := c.data(i)
		at := c.place(axis, v.rank())
		if v.holds(at) {
			c.meets(i, "runs along")
		}
		entry, turns = v.without(at), v.dims[at]
	}); why != nil {
		return &value{kind: mixed, why: why}, c.fresh()
	}
	return entry, turns
}
