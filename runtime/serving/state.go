package serving

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/residency"
	"github.com/weftserve/weft/runtime/tensor"
)

// keep finds the inputs that the server keeps between the requests of an episode in the signature that the replica is
// published with. The error is all faults, by their places in the settings. Without settings there are none: what names
// and shapes tell is kept if it can be. A pipeline has the names of several models.
func (r *Replica) keep(c residency.Candidate) error {
	s := c.Manifest.State
	found := s == nil && c.Version.Pipeline == nil
	if found {
		s = &modelrepo.State{Pairs: findPairs(r.signature)}
		s.SetDefaults()
	}
	if s == nil || len(s.Pairs)+len(s.Windows) == 0 {
		return nil
	}
	f := finder{settings: s, version: c.Version, sig: r.signature, found: &catalog.EpisodeState{Found: found}}
	for i := range s.Pairs {
		f.pair(c.Version.StateKey(s.Pairs[i].Input, fmt.Sprintf("state.pairs[%d]", i)), &s.Pairs[i])
	}
	for i := range s.Windows {
		f.window(c.Version.StateKey(s.Windows[i].Input, fmt.Sprintf("state.windows[%d]", i)), &s.Windows[i])
	}
	for _, control := range s.Controls() {
		f.control(c.Version.StateKey(control.Input, control.Setting), control)
	}
	slices.SortFunc(f.found.Inputs, func(a, b catalog.StateInput) int { return cmp.Compare(a.Input, b.Input) })
	if found && len(f.faults) > 0 {
		return nil
	}
	if !found && c.Version.Pipeline == nil {
		f.found.Doubt = doubtOf(s.Pairs, findPairs(r.signature))
	}
	r.state = bounded(f.found, s)
	if found && len(r.Replicas()) == 0 {
		r.shared.Log.Info("state found by names and shapes", "event", "state_found", "model", r.Model, "version", r.Number,
			"pairs", pairsOf(s.Pairs), "effect", "an episode that begins (begin_episode) need not bring it; other requests are "+
				"answered as before", "remedy", "state: none in "+modelrepo.ManifestName+" if it is none")
	}
	return s.At(f.faults)
}

// doubtOf says that names tell of other pairs than settings.
func doubtOf(named, found []modelrepo.StatePair) string {
	for _, p := range found {
		if !slices.Contains(named, p) {
			return "names and shapes tell of " + pairsOf(found) + ", and state of other pairs: see whether that is right"
		}
	}
	return ""
}

// pairsOf is such as "h <- hn, c <- cn", of a few of them.
func pairsOf(all []modelrepo.StatePair) string {
	const few = 8
	var texts []string
	for _, p := range all[:min(few, len(all))] {
		texts = append(texts, p.Input+" <- "+p.Output)
	}
	if more := len(all) - few; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, ", ")
}

// bounded returns what the server keeps, within the bounds that the settings have now. Either may be nil: nothing is
// kept, or the bounds stay.
func bounded(state *catalog.EpisodeState, s *modelrepo.State) *catalog.EpisodeState {
	if state == nil || s == nil {
		return state
	}
	now := *state
	now.MaxEpisodes, now.Idle, now.OfStream = s.MaxEpisodes, time.Duration(s.Idle), s.Bind == modelrepo.BindStream
	now.OnChange = changes[s.OnVersionChange]
	return &now
}

var controls = map[string]catalog.StateControlKind{
	"state.start": catalog.StartControl, "state.end": catalog.EndControl, "state.ready": catalog.ReadyControl,
	"state.id": catalog.IDControl,
}

var changes = map[modelrepo.OnVersionChange]catalog.StateChange{
	modelrepo.RefuseOnChange: catalog.RefuseChange, modelrepo.ResetOnChange: catalog.ResetChange,
	modelrepo.CarryOnChange: catalog.CarryChange,
}

// sameKept compares the batch dimensions that the outputs which are kept have in two signatures with the same outputs.
func sameKept(state *catalog.EpisodeState, a, b *tensor.Signature) bool {
	return state == nil || !slices.ContainsFunc(state.Inputs, func(in catalog.StateInput) bool {
		return in.Output >= 0 && a.Outputs[in.Output].BatchDim != b.Outputs[in.Output].BatchDim
	})
}

// finder compares the settings of state with a signature.
type finder struct {
	settings *modelrepo.State
	version  modelrepo.Version
	sig      *tensor.Signature
	found    *catalog.EpisodeState
	faults   config.Faults
}

// input returns the place of an input; -1: it has a fault.
func (f *finder) input(key, name string) int {
	return f.named(key, name, "input", f.sig.Inputs, f.sig.Input(name))
}

// named returns at, the place of a tensor with that name; -1: it has a fault.
func (f *finder) named(key, name, kind string, among []tensor.Spec, at int) int {
	note := slices.IndexFunc(f.sig.Notes, func(note string) bool {
		return strings.HasPrefix(note, fmt.Sprintf("output %q ", name))
	})
	switch {
	case at >= 0 && among[at].DType == tensor.String:
		f.faults.Addf(key, "expected numbers, or true and false: its elements are strings, which are not kept")
	case at >= 0:
		return at
	case f.sig.Known(name) && kind != "output":
		f.faults.Addf(key, "expected an input that each request has: the model has a default for this one, take that away")
	case note >= 0 && kind != "input":
		f.faults.Addf(key, "expected an output that Weft serves: %s", f.sig.Notes[note])
	default:
		var names []string
		for i := range among {
			names = append(names, among[i].Name)
		}
		f.faults = append(f.faults, config.Fault{
			Key: key, Message: fmt.Sprintf("the model has no such %s; expected one of %s, found %q", kind,
				strings.Join(names, ", "), name), Suggestion: config.Nearest(name, names),
		})
	}
	return -1
}

func (f *finder) pair(key string, p *modelrepo.StatePair) {
	i := f.input(key+".input", p.Input)
	o := f.named(key+".output", p.Output, "output", f.sig.Outputs, f.sig.Output(p.Output))
	if i < 0 || o < 0 {
		return
	}
	in, out := &f.sig.Inputs[i], &f.sig.Outputs[o]
	switch {
	case in.DType != out.DType:
		f.faults.Addf(key, "expected elements of one type: the input is %v, the output %v", in.DType, out.DType)
		return
	case in.BatchDim != out.BatchDim:
		f.faults.Addf(key, "expected rows along one dimension (batching.batch_dim, batching.unbatched): the input has %s, "+
			"the output %s", alongDim(in.BatchDim), alongDim(out.BatchDim))
		return
	}
	row, fits := rowOf(in), len(in.Shape) == len(out.Shape)
	for d := 0; fits && d < len(row); d++ {
		if row[d] == tensor.Unknown {
			row[d] = out.Shape[d]
		}
		fits = d == in.BatchDim || out.Shape[d] == tensor.Unknown || row[d] == out.Shape[d]
	}
	if !fits {
		f.faults.Addf(key, "expected one shape but for the rows: the input is %v, the output %v", in.Shape, out.Shape)
		return
	}
	f.add(key, catalog.StateInput{Input: i, Output: o, Of: -1}, row)
}

func (f *finder) window(key string, w *modelrepo.StateWindow) {
	i := f.input(key+".input", w.Input)
	if w.Of == "" {
		f.stack(key, i, w.Steps)
		return
	}
	of, o := f.sig.Input(w.Of), -1
	among, kind := f.sig.Inputs, "input"
	if of < 0 && !f.sig.Known(w.Of) {
		o = f.sig.Output(w.Of)
		among, kind = f.sig.Outputs, "input or output"
		if o < 0 {
			among = slices.Concat(f.sig.Inputs, f.sig.Outputs)
		}
	}
	at := f.named(key+".of", w.Of, kind, among, max(of, o))
	if i < 0 || at < 0 {
		return
	}
	in, from := &f.sig.Inputs[i], &among[at]
	row, one := rowOf(in), rowOf(from)
	switch {
	case in.DType != from.DType:
		f.faults.Addf(key, "expected elements of one type: the input is %v, %s is %v", in.DType, w.Of, from.DType)
	case in.BatchDim != f.rows() || from.BatchDim != f.rows():
		f.faults.Addf(key, "expected %s in both (batching.batch_dim, batching.unbatched): the input has %s, %s has %s",
			alongDim(f.rows()), alongDim(in.BatchDim), w.Of, alongDim(from.BatchDim))
	case !row.Known() || !one.Known():
		f.faults.Addf(key, "expected known sizes but for the rows: the input is %v, %s is %v", in.Shape, w.Of, from.Shape)
	case !stacks(without(row, in.BatchDim), without(one, from.BatchDim), int64(w.Steps)):
		f.faults.Addf(key, "expected a row of the input to be rows of %s one behind the other, as many as steps, such as "+
			"%v or %v: it is %v", w.Of, append(tensor.Shape{int64(w.Steps)}, without(one, from.BatchDim)...),
			tensor.Shape{int64(w.Steps) * elementsOf(one)}, without(row, in.BatchDim))
	default:
		f.add(key, catalog.StateInput{Input: i, Output: o, Window: w.Steps, Of: of}, row)
	}
}

// stack keeps an input that is a window of what requests bring as that input.
func (f *finder) stack(key string, i, steps int) {
	if i < 0 {
		return
	}
	in := &f.sig.Inputs[i]
	row := rowOf(in)
	values := without(row, in.BatchDim)
	switch {
	case in.BatchDim != f.rows():
		f.faults.Addf(key, "expected %s (batching.batch_dim, batching.unbatched): the input has %s", alongDim(f.rows()),
			alongDim(in.BatchDim))
	case !row.Known() || len(values) == 0 || values[0]%int64(steps) != 0:
		f.faults.Addf(key, "expected a row of the input to be values one behind the other, as many as steps: its first "+
			"dimension a multiple of %d, and all sizes known; it is %v", steps, values)
	default:
		f.add(key, catalog.StateInput{Input: i, Output: -1, Window: steps, Of: i}, row)
	}
}

// rows returns the dimension that a window has its rows along: the outermost, so that the memory of each is one piece;
// [tensor.NoBatch] if requests have none.
func (f *finder) rows() int {
	if slices.ContainsFunc(f.sig.Inputs, func(in tensor.Spec) bool { return in.BatchDim != tensor.NoBatch }) {
		return 0
	}
	return tensor.NoBatch
}

func (f *finder) control(key string, c modelrepo.StateControl) {
	i := f.input(key, c.Input)
	if i < 0 {
		return
	}
	if in := &f.sig.Inputs[i]; elementsOf(rowOf(in)) != 1 {
		f.faults.Addf(key, "expected one number, true or false, or one for each row: the input is %v", in.Shape)
		return
	}
	f.found.Controls = append(f.found.Controls, catalog.StateControl{Input: i, Kind: controls[c.Setting]})
}

// maxStateRow bounds the elements of one row of an input.
const maxStateRow = 1 << 26

// add keeps an input whose rows have a shape, of sizes that are known or vary.
func (f *finder) add(key string, in catalog.StateInput, row tensor.Shape) {
	spec := &f.sig.Inputs[in.Input]
	if spec.Variable != nil {
		f.faults.Addf(key, "expected an input outside batching.variable_dims: it would be kept with the padding of a batch")
		return
	}
	file, isFile := f.settings.InitialFile(spec.Name)
	if spec.BatchDim == tensor.NoBatch && !isFile && !row.Known() {
		f.faults.Addf(key, "expected rows (batching.batch_dim), or a first value (state.initial, a file; [] is an empty "+
			"cache): a size of the input %v is open, and may be that of rows", spec.Shape)
		return
	}
	least := slices.Clone(row)
	for d, n := range least {
		least[d] = max(n, 0) // a cache begins empty
	}
	if n := elementsOf(least); n < 0 || n > maxStateRow {
		f.faults.Addf(key, "expected at most %d elements in a row: the input is %v", maxStateRow, spec.Shape)
		return
	}
	t := tensor.Tensor{DType: spec.DType, Shape: row}
	var err error
	if isFile {
		err = f.read(&t, file, spec)
	} else {
		var element []byte
		element, err = tensor.ParseElement(t.DType, string(f.settings.Initial[spec.Name]))
		t.Shape, t.Data = least, bytes.Repeat(element, int(elementsOf(least)))
	}
	if err != nil {
		f.faults.Addf("state.initial."+spec.Name, "%v; expected a row of type %v and the shape %v", err, t.DType,
			without(spec.Shape, spec.BatchDim))
	}
	in.Initial = t
	f.found.Inputs = append(f.found.Inputs, in)
}

// read fills a tensor, the first value of an input, from a file that has one row as nested lists.
func (f *finder) read(t *tensor.Tensor, file string, spec *tensor.Spec) error {
	version, dim := f.version, spec.BatchDim
	if dir, is := f.settings.Dirs[spec.Name]; is {
		version.Dir = dir
	}
	text, err := version.StateFile(file)
	if err != nil {
		return err
	}
	var lists any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&lists); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: there is more behind the lists; remove it", file)
	}
	shape := without(t.Shape, dim)
	if err := fill(t, lists, shape); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for i := range t.Shape {
		if i != dim {
			t.Shape[i], shape = max(shape[0], 0), shape[1:]
		}
	}
	return nil
}

// fill appends the elements of nested lists to a tensor. The lists have a shape, whose unknown sizes become known.
func fill(t *tensor.Tensor, v any, shape tensor.Shape) error {
	switch v := v.(type) {
	case json.Number, bool:
		if len(shape) > 0 {
			return fmt.Errorf("found %v where a list is expected", v)
		}
		element, err := tensor.ParseElement(t.DType, fmt.Sprint(v))
		t.Data = append(t.Data, element...)
		return err
	case []any:
		switch {
		case len(shape) == 0:
			return errors.New("found a list where a number is expected")
		case shape[0] == tensor.Unknown:
			shape[0] = int64(len(v))
		case shape[0] != int64(len(v)):
			return fmt.Errorf("found a list of %d where one of %d is expected", len(v), shape[0])
		}
		for _, e := range v {
			if err := fill(t, e, shape[1:]); err != nil {
				return err
			}
		}
		return nil
	}
	return errors.New("found something else than numbers, true and false, and lists of these")
}

// rowOf returns the shape of one row, with 1 in the dimension of rows.
func rowOf(s *tensor.Spec) tensor.Shape {
	shape := slices.Clone(s.Shape)
	if s.BatchDim != tensor.NoBatch {
		shape[s.BatchDim] = 1
	}
	return shape
}

// without returns a copy of a shape without a dimension; [tensor.NoBatch]: of the whole.
func without(s tensor.Shape, dim int) tensor.Shape {
	if dim == tensor.NoBatch {
		return slices.Clone(s)
	}
	return append(s[:dim:dim], s[dim+1:]...)
}

// stacks reports whether so many values of the shape one lie in memory of the shape all one behind the other: what all
// has before the dimensions that both end in, but for leading ones, are the steps, alone or as a part of the first.
func stacks(all, one tensor.Shape, steps int64) bool {
	if elementsOf(all) != steps*elementsOf(one) {
		return false
	}
	for len(all) > 0 && len(one) > 0 && all[len(all)-1] == one[len(one)-1] {
		all, one = all[:len(all)-1], one[:len(one)-1]
	}
	for len(all) > 1 && all[0] == 1 {
		all = all[1:]
	}
	return len(all) <= 1 || all[0] == steps
}

// elementsOf returns how many elements a shape has; negative: the sizes are not known.
func elementsOf(s tensor.Shape) int64 {
	n, ok := s.Elements()
	if !ok {
		return -1
	}
	return n
}
