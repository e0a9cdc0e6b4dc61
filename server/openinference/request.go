package openinference

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/openinference/region"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/transport"
	"github.com/weftserve/weft/server/wire/elements"
	"github.com/weftserve/weft/server/wire/fields"
)

// request is a ModelInferRequest on its way. It implements transport.Request and predict.Codec, and is used again for
// another request once it was released.
type request struct {
	transport.Exchange

	house   *transport.Calls
	regions *region.Registry
	stream  bool
	web     bool // it came as JSON
	in      inference.ModelInferRequest
	lifted  elements.Lifted // the large values of it
	inputs  []input         // of in
	outputs []output
	data    mem.BufferSlice // that the message refers to; nil: none
	bytes   [][]byte        // those of data
	number  int64           // of the version that is asked for
	asked   asked
	out     fields.Writer
	values  [][]byte // of outputs, while they are encoded
	given   bool     // the values of out belong to the answer

	sharing bool      // the message names regions
	shared  int64     // bytes of inputs there
	copies  []*[]byte // of inputs from there, and outputs that the answer does not have
}

// input is an input, and where it lies if that is not in its contents.
type input struct {
	*inference.ModelInferRequest_InferInputTensor

	raw    elements.Elements // its entry of raw_input_contents, or the bytes behind the JSON
	list   list              // of JSON
	place  *region.Part      // in shared memory; nil: it is not there
	copied *[]byte           // the copy of what is there; nil: it was not read
}

// output is an output that is asked for.
type output struct {
	*inference.ModelInferRequest_InferRequestedOutputTensor

	place   *region.Part // where it is to lie; nil: in the answer
	classes uint64       // how many of its largest elements are wanted in its place; 0: the output
}

var requests = sync.Pool{New: func() any { return new(request) }}

func newRequest(s *Service, stream bool) *request {
	r := requests.Get().(*request)
	r.house, r.regions, r.stream = s.Calls, s.Regions, stream
	return r
}

// Type implements transport.Message.
func (*request) Type() string { return "inference.ModelInferRequest" }

// large are the fields raw_input_contents, and fp32_contents and fp64_contents of inputs.
var large = elements.Fields{
	7: {List: elements.Raw},
	5: {Within: elements.Fields{5: {Within: elements.Fields{6: {List: elements.Float}, 7: {List: elements.Double}}}}},
}

// Take implements transport.Message.
func (r *request) Take(data mem.BufferSlice) error {
	r.data = data
	for _, b := range data {
		r.bytes = append(r.bytes, b.ReadOnlyData())
	}
	if err := r.lifted.Unmarshal(r.bytes, &r.in, large); err != nil {
		return err
	}
	r.spread()
	r.fill(data.Len())
	return nil
}

// spread makes room for what is to be known of each tensor of the message.
func (r *request) spread() {
	for _, in := range r.in.GetInputs() {
		r.inputs = append(r.inputs, input{ModelInferRequest_InferInputTensor: in})
	}
	for _, out := range r.in.GetOutputs() {
		r.outputs = append(r.outputs, output{ModelInferRequest_InferRequestedOutputTensor: out})
	}
}

// fill makes a request of the message, which has so many bytes.
func (r *request) fill(size int) {
	m := &r.in
	r.Request = predict.Request{
		Model: m.GetModelName(), ID: m.GetId(), Inputs: len(m.GetInputs()), Stream: r.stream, Codec: r,
	}
	for _, o := range m.GetOutputs() {
		r.Outputs = append(r.Outputs, o.GetName())
	}
	var err error
	r.asked, err = r.ask()
	if r.Chosen = r.asked.chosen; err != nil {
		r.Fault = err
		return
	}
	if r.Fault = r.locate(size); r.Fault != nil {
		return
	}
	a := &r.asked
	r.Episode, r.EndOfEpisode, r.Priority, r.Target = a.episode, a.end, a.priority, a.target
	r.TraceParent = a.trace
	if a.timeout > 0 {
		r.Limit = time.Now().Add(a.timeout)
	}
	switch {
	case m.GetModelVersion() != "" && a.label != "":
		r.Fault = &tensor.FieldError{Field: "parameters[\"label\"]", Want: "either a version or a label", Got: "both"}
	case m.GetModelVersion() != "":
		if r.number, err = versionOf(m.GetModelVersion()); err != nil {
			r.Fault = err
			return
		}
		r.Choice = routing.Choice{Version: &r.number}
	case a.label != "":
		r.Choice = routing.Choice{Label: &a.label}
	}
	if r.Fault == nil {
		r.Fault = r.match()
	}
}

// versionOf reads the number of a version.
func versionOf(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, &tensor.FieldError{
			Field: "model_version", Want: "the number of a version, or nothing (the parameter label chooses by a label)",
			Got: routing.Quote(text),
		}
	}
	return n, nil
}

// match gives the raw entries to the inputs that have no contents, in their order. Those of JSON have theirs.
func (r *request) match() error {
	if r.web {
		return r.matchBody()
	}
	left := r.in.GetRawInputContents()
	all := len(left)
	for i := range r.inputs {
		in := &r.inputs[i]
		switch {
		case in.Contents != nil && in.place != nil:
			return in.both("no contents beside shared_memory_region")
		case in.place != nil:
		case in.Contents != nil && all > 0:
			return in.both("no contents beside raw_input_contents")
		case in.Contents == nil && len(left) > 0:
			in.raw, left = r.lifted.Bytes(left[0]), left[1:]
		}
	}
	if len(left) > 0 {
		return &tensor.FieldError{
			Field: "raw_input_contents", Want: fmt.Sprintf("an entry for each of %d inputs", all-len(left)),
			Got: fmt.Sprintf("%d entries", all),
		}
	}
	return nil
}

// both refuses an input whose elements are in two places.
func (in *input) both(want string) error {
	return &tensor.FieldError{Field: inputField(in), Want: want, Got: "both"}
}

func inputField(in *input) string    { return "inputs[" + routing.Quote(in.GetName()) + "]" }
func outputField(name string) string { return "outputs[" + routing.Quote(name) + "]" }

// Release implements transport.Request.
func (r *request) Release() {
	r.Leave()
	if !r.given {
		for _, v := range r.out.Values {
			r.house.Memory.Put(&v.Data)
		}
	}
	r.letGo()
	r.data.Free()
	r.in.Reset()
	r.lifted.Reset()
	r.out.Reset()
	r.inputs, r.outputs, r.bytes, r.values = emptied(r.inputs), emptied(r.outputs), emptied(r.bytes), emptied(r.values)
	r.Exchange, r.house, r.regions, r.data, r.given = transport.Exchange{}, nil, nil, nil, false
	r.web = false
	r.asked = asked{}
	requests.Put(r)
}

// emptied returns a list without its elements, in the same memory unless that is large.
func emptied[T any](all []T) []T {
	const most = 64
	if cap(all) > most {
		return nil
	}
	clear(all)
	return all[:0]
}

// Names implements predict.Codec.
func (r *request) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, in := range r.in.GetInputs() {
			if !yield(in.GetName()) {
				return
			}
		}
	}
}

// protocol is how a message carries elements.
var protocol = elements.Protocol{RawTexts: true, RawHalves: true, Names: [elements.Lists]string{
	elements.Raw: "raw_input_contents", elements.Float: "contents.fp32_contents",
	elements.Double: "contents.fp64_contents", elements.Int32: "contents.int_contents",
	elements.Int64: "contents.int64_contents", elements.Uint32: "contents.uint_contents",
	elements.Uint64: "contents.uint64_contents", elements.Bool: "contents.bool_contents",
	elements.Texts: "contents.bytes_contents",
}}

// inBodies is how a body of HTTP carries elements.
var inBodies = elements.Protocol{RawTexts: true, Names: [elements.Lists]string{
	elements.Raw: `parameters["binary_data_size"]`, elements.Float: "data", elements.Double: "data",
	elements.Int32: "data", elements.Int64: "data", elements.Uint32: "data", elements.Uint64: "data",
	elements.Bool: "data", elements.Texts: "data",
}}

// contents are the lists of InferTensorContents, by their fields.
var contents = [...]elements.List{
	1: elements.Bool, 2: elements.Int32, 3: elements.Int64, 4: elements.Uint32, 5: elements.Uint64,
	6: elements.Float, 7: elements.Double, 8: elements.Texts,
}

// sizesOf counts what each list has.
func sizesOf(c *inference.InferTensorContents) elements.Sizes {
	if c == nil {
		return elements.Sizes{}
	}
	var sizes elements.Sizes
	c.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		sizes[contents[f.Number()]] = v.List().Len()
		return true
	})
	return sizes
}

// Decode implements predict.Codec.
func (r *request) Decode(spec *tensor.Spec) (tensor.Tensor, error) {
	i := slices.IndexFunc(r.inputs, func(in input) bool { return in.GetName() == spec.Name })
	if i < 0 {
		return tensor.Tensor{}, &tensor.FieldError{Want: "an input of that name", Got: "none"}
	}
	in := &r.inputs[i]
	if want := datatype(spec.DType); in.GetDatatype() != want {
		return tensor.Tensor{}, &tensor.FieldError{Field: "datatype", Want: want, Got: routing.Quote(in.GetDatatype())}
	}
	shape, err := taken(spec, in.GetShape())
	if err != nil {
		return tensor.Tensor{}, err
	}
	switch {
	case in.place != nil:
		return r.decodeShared(spec, in, shape)
	case in.list.text != nil:
		return r.decodeList(spec, in, shape)
	}
	c := in.GetContents()
	came := elements.Came{Left: in.raw, Texts: c.GetBytesContents(), Sizes: sizesOf(c)}
	switch {
	case len(c.GetFp32Contents()) > 0:
		came.Left = r.lifted.Singles(c.GetFp32Contents())
	case len(c.GetFp64Contents()) > 0:
		came.Left = r.lifted.Doubles(c.GetFp64Contents())
	}
	names := &protocol
	if r.web {
		names = &inBodies
	}
	t, _, err := names.Decode(spec, shape, &came, func(l elements.List) []byte {
		return elements.Packed(c.ProtoReflect(), protowire.Number(slices.Index(contents[:], l)))
	})
	return t, err
}

// output returns what was asked of an output of the answer.
func (r *request) output(i int) *output {
	if i < len(r.outputs) {
		return &r.outputs[i]
	}
	return &unasked
}

// unasked is the output of a request that asks for none in particular.
var unasked output

// CheckOutput implements predict.OutputChecker.
func (r *request) CheckOutput(i int, spec *tensor.Spec, rows int) error {
	o := &r.outputs[i]
	if o.classes > 0 && !ranks(spec.DType) {
		return &tensor.FieldError{
			Field: outputField(o.GetName()) + `.parameters["classification"]`, Want: "an output of numbers",
			Got: "one of " + datatype(spec.DType),
		}
	}
	shape := spec.Shape
	if spec.BatchDim != tensor.NoBatch {
		shape = shape.With(spec.BatchDim, int64(rows))
	}
	count, known := shape.Elements()
	if size := int64(spec.DType.Size()); o.place != nil && known && size > 0 {
		return fits(o, count*size)
	}
	return nil
}
