package proof

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// Decision holds the dimensions along which a model's rows are joined, as far as its declaration and its manifest say.
type Decision struct {
	Signature *tensor.Signature // with BatchDim set
	// Against says why rows are not joined at all; "" when they may be.
	Against string

	// guessed are the outputs whose batch dimension the manifest does not state: the model's results may correct it.
	guessed []bool
	// assumed are the inputs that are taken to have as many rows as others although neither the manifest nor the name
	// of the dimension says so.
	assumed []string
	// variables are the dimensions of inputs that the manifest brings to common lengths, and trims the dimensions of
	// outputs that are as long as one of those.
	variables []variable
	trims     []tensor.Trim

	graph graphProof
	// declared and manifest are what the decision was made by.
	declared *tensor.Signature
	manifest *modelrepo.Batching
}

// Decide chooses the batch dimension of every tensor of a model, as far as its declaration and its manifest say. The
// error names the manifest's key that does not fit the model.
func Decide(declared *tensor.Signature, b *modelrepo.Batching) (*Decision, error) {
	d, err := decide(declared, b)
	if err == nil && d.Against != "" && !d.certain() {
		d.forgetRows()
	}
	return d, err
}

// HasLengths reports whether the manifest brings dimensions of inputs to common lengths.
func (d *Decision) HasLengths() bool { return len(d.variables) > 0 }

// decide chooses the batch dimension of every tensor: the one that the manifest states; else the dimension that bears
// the symbolic name of the batch; else dimension 0 where its size is open. The error names the manifest's key that does
// not fit the model.
func decide(declared *tensor.Signature, b *modelrepo.Batching) (*Decision, error) {
	if err := checkManifest(declared, b); err != nil {
		return nil, err
	}
	d := &Decision{
		Signature: declared.Clone(), guessed: make([]bool, len(declared.Outputs)), declared: declared, manifest: b,
	}
	symbol := batchSymbol(declared, b)
	batched := false
	for i := range d.Signature.Inputs {
		in := &d.Signature.Inputs[i]
		if slices.Contains(b.Unbatched, in.Name) {
			in.BatchDim = tensor.NoBatch
			continue
		}
		in.BatchDim = batchDim(in, b.BatchDim.Inputs, symbol)
		batched = batched || in.BatchDim != tensor.NoBatch
	}
	if batched && b.Mode == modelrepo.BatchAuto {
		guessStates(d.Signature.Inputs, b.Unbatched)
	}
	if !d.certain() {
		d.assumed = d.unnamed(symbol, b.BatchDim.Inputs)
	}
	for i := range d.Signature.Outputs {
		out := &d.Signature.Outputs[i]
		out.BatchDim = batchDim(out, b.BatchDim.Outputs, symbol)
		_, stated := b.BatchDim.Outputs[out.Name]
		d.guessed[i] = !stated
	}
	if err := d.findVariables(b, batched); err != nil {
		return nil, err
	}
	switch {
	case !batched:
		d.Against = "no input has an open batch dimension, so every request is an execution of its own; export the model " +
			"with dimension 0 of its inputs open: dynamic_shapes, or dynamic_axes (docs/quickstart/python-policy.md)"
		if len(b.Unbatched) > 0 {
			d.Against = "no input but those that batching.unbatched names has an open batch dimension, so every " +
				"request is an execution of its own"
		}
		d.forgetRows()
	case b.Mode == modelrepo.BatchOff:
		d.Against = "batching.mode is off"
	case b.MaxBatchSize == 1:
		d.Against = "one row is the most that the manifest allows in an execution"
	}
	return d, nil
}

// sharedOutput returns the name of an output that has no row per request, "" if all have.
func (d *Decision) sharedOutput() string {
	for i := range d.Signature.Outputs {
		if d.Signature.Outputs[i].BatchDim == tensor.NoBatch {
			return d.Signature.Outputs[i].Name
		}
	}
	return ""
}

// batchDim returns the dimension that the manifest or the declaration states.
func batchDim(s *tensor.Spec, stated map[string]int, symbol string) int {
	if dim, ok := stated[s.Name]; ok {
		return dim
	}
	if symbol != "" {
		if dim := slices.Index(s.DimNames, symbol); dim >= 0 {
			return dim
		}
	}
	if len(s.Shape) > 0 && s.Shape[0] == tensor.Unknown {
		return 0
	}
	return tensor.NoBatch
}

// batchSymbol returns the name of the batch dimension: that of the first input which has one, by the manifest or in
// front. Where time comes first, as in [seq_len, batch, 8], it is the second name: every output has it, and not the
// first, or it is called like a batch.
func batchSymbol(s *tensor.Signature, b *modelrepo.Batching) string {
	for i := range s.Inputs {
		in := &s.Inputs[i]
		dim := batchDim(in, b.BatchDim.Inputs, "")
		if dim == tensor.NoBatch || slices.Contains(b.Unbatched, in.Name) || in.DimNames == nil ||
			in.DimNames[dim] == "" {
			continue
		}
		front := in.DimNames[dim]
		if _, stated := b.BatchDim.Inputs[in.Name]; stated || namesBatch(front) || dim != 0 || len(in.Shape) < 2 ||
			in.Shape[1] != tensor.Unknown || in.DimNames[1] == "" {
			return front
		}
		if second := in.DimNames[1]; allHave(s.Outputs, second) && (namesBatch(second) || !allHave(s.Outputs, front)) {
			return second
		}
		return front
	}
	return ""
}

// namesBatch reports whether a dimension is called like that of a batch.
func namesBatch(symbol string) bool {
	symbol = strings.ToLower(symbol)
	return strings.Contains(symbol, "batch") || symbol == "n" || symbol == "b" || symbol == "bs"
}

func allHave(specs []tensor.Spec, symbol string) bool {
	return !slices.ContainsFunc(specs, func(s tensor.Spec) bool { return !slices.Contains(s.DimNames, symbol) })
}

// elsewhere returns manifests by which one input has its rows in another dimension that the model leaves open, and the
// others along dimensions of the same name. It states nothing where the manifest does.
func (d *Decision) elsewhere() (all []*modelrepo.Batching) {
	if len(d.manifest.BatchDim.Inputs) > 0 {
		return nil
	}
	for i := range d.Signature.Inputs {
		in := &d.Signature.Inputs[i]
		if in.BatchDim == tensor.NoBatch {
			continue
		}
		for dim, size := range d.declared.Inputs[i].Shape {
			if size == tensor.Unknown && dim != in.BatchDim {
				other := *d.manifest
				other.BatchDim.Inputs = map[string]int{in.Name: dim}
				all = append(all, &other)
			}
		}
		break // the others follow, or are guessed
	}
	return all
}

// guessStates gives inputs without a batch dimension their only open one, such as that of a recurrent state [layers, ?,
// width] next to an observation [?, width]. The proof finds out whether the guess is right.
func guessStates(inputs []tensor.Spec, unbatched []string) {
	for i := range inputs {
		if inputs[i].BatchDim == tensor.NoBatch && !slices.Contains(unbatched, inputs[i].Name) {
			inputs[i].BatchDim = onlyOpen(inputs[i].Shape)
		}
	}
}

// onlyOpen returns the one dimension whose size is open, or NoBatch where there are none or several.
func onlyOpen(s tensor.Shape) int {
	open := tensor.NoBatch
	for d, size := range s {
		switch {
		case size != tensor.Unknown:
		case open != tensor.NoBatch:
			return tensor.NoBatch
		default:
			open = d
		}
	}
	return open
}

// certain reports whether all inputs with rows are sure to have equally many, because there is one such input or
// because the model gives their batch dimensions one name.
func (d *Decision) certain() bool {
	symbols := map[string]bool{}
	inputs := 0
	for i := range d.Signature.Inputs {
		in := &d.Signature.Inputs[i]
		if in.BatchDim == tensor.NoBatch {
			continue
		}
		inputs++
		symbol := ""
		if in.DimNames != nil {
			symbol = in.DimNames[in.BatchDim]
		}
		symbols[symbol] = true
	}
	return inputs == 1 || len(symbols) == 1 && !symbols[""]
}

// unnamed returns the inputs with rows whose dimension bears another name than that of the batch, or none, and is not
// stated.
func (d *Decision) unnamed(symbol string, stated map[string]int) (names []string) {
	for i := range d.Signature.Inputs {
		in := &d.Signature.Inputs[i]
		_, is := stated[in.Name]
		if in.BatchDim != tensor.NoBatch && !is &&
			(in.DimNames == nil || in.DimNames[in.BatchDim] != symbol || symbol == "") {
			names = append(names, strconv.Quote(in.Name))
		}
	}
	return names
}

// forgetRows declares that no tensor has rows: a request is then one row, whatever its shapes.
func (d *Decision) forgetRows() {
	d.Signature, d.assumed = d.Signature.Clone(), nil
	for i := range d.Signature.Inputs {
		d.Signature.Inputs[i].BatchDim = tensor.NoBatch
	}
	for i := range d.Signature.Outputs {
		d.Signature.Outputs[i].BatchDim = tensor.NoBatch
	}
}

// observe corrects guessed batch dimensions of outputs by the model's results for a few rows and for more of them.
func (d *Decision) observe(few, many []tensor.Tensor, n, m int) {
	d.Signature = d.Signature.Clone()
	for i, guessed := range d.guessed {
		if !guessed {
			continue
		}
		a, b := few[i].Shape, many[i].Shape
		dim := d.Signature.Outputs[i].BatchDim
		if growsAlong(dim, a, b, n, m) {
			continue
		}
		for dim = range a {
			if growsAlong(dim, a, b, n, m) {
				d.Signature.Outputs[i].BatchDim = dim
				break
			}
		}
		if slices.Equal(a, b) {
			d.Signature.Outputs[i].BatchDim = tensor.NoBatch
		}
	}
}

// growsAlong reports whether the two shapes are n rows and m rows along dim.
func growsAlong(dim int, few, many tensor.Shape, n, m int) bool {
	return dim != tensor.NoBatch && dim < len(few) && few[dim] == int64(n) && len(many) == len(few) &&
		many[dim] == int64(m) && few.EqualBut(dim, many)
}

// hint says how to name another dimension of rows; "" if there is none.
func (d *Decision) hint() string {
	for _, b := range d.elsewhere() {
		for name, dim := range b.BatchDim.Inputs {
			return fmt.Sprintf("; if rows are in another dimension, name that, as in batching.batch_dim: {inputs: {%s: %d}}",
				name, dim)
		}
	}
	return ""
}
