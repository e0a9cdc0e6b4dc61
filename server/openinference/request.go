package openinference

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/openinference/region"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/protect"
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
	in      message
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

var requests = sync.Pool{New: func() any { return new(request) }}

func newRequest(s *Service, stream bool) *request {
	r := requests.Get().(*request)
	r.house, r.regions, r.stream = s.Calls, s.Regions, stream
	return r
}

// Type implements transport.Message.
func (*request) Type() string { return "inference.ModelInferRequest" }

// Take implements transport.Message.
func (r *request) Take(data mem.BufferSlice) error {
	size := data.Len()
	for _, b := range data {
		r.bytes = append(r.bytes, b.ReadOnlyData())
	}
	if r.in.read(r.bytes, false) {
		r.data = data
	} else if err := r.takeOdd(data); err != nil {
		return err
	}
	r.fill(size)
	return nil
}

// takeOdd has the generated code read a message, and write it as most clients do.
func (r *request) takeOdd(data mem.BufferSlice) error {
	r.forget()
	whole := data.MaterializeToBuffer(r.house.Memory)
	data.Free()
	defer whole.Free()
	var m inference.ModelInferRequest
	if err := protect.Unmarshal(whole.ReadOnlyData(), &m); err != nil {
		return err
	}
	plain, err := proto.Marshal(&m)
	if err != nil {
		return err
	}
	if !r.in.read([][]byte{plain}, true) {
		return errors.New("it has too many small parts: send elements raw")
	}
	return nil
}

// fill makes a request of the message, which has so many bytes.
func (r *request) fill(size int) {
	m := &r.in
	r.Request = predict.Request{
		Model: m.model, ID: m.id, Inputs: m.came, Stream: r.stream, Codec: r,
	}
	for i := range m.outputs {
		r.Outputs = append(r.Outputs, m.outputs[i].name)
	}
	var err error
	r.asked, err = ask(m)
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
	case m.version != "" && a.label != "":
		r.Fault = &tensor.FieldError{Field: "parameters[\"label\"]", Want: "either a version or a label", Got: "both"}
	case m.version != "":
		if r.number, err = versionOf(m.version); err != nil {
			r.Fault = err
			return
		}
		r.Choice = routing.Choice{Version: &r.number}
	case a.label != "":
		r.Choice = routing.Choice{Label: &a.label}
	}
	if r.Fault == nil {
		r.Fault = m.match(r.web)
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
func (m *message) match(web bool) error {
	if web {
		return m.matchBody()
	}
	next := 0
	for _, in := range m.inputs[:m.came] {
		switch {
		case in.contents && in.place != nil:
			return &tensor.FieldError{
				Field: inputField(in), Want: "no contents beside shared_memory_region", Got: "both",
			}
		case in.place != nil:
		case in.contents && len(m.raw) > 0:
			return &tensor.FieldError{
				Field: inputField(in), Want: "no contents beside raw_input_contents", Got: "both",
			}
		case !in.contents && next < len(m.raw):
			in.raw = next
			next++
		}
	}
	if next < len(m.raw) {
		return &tensor.FieldError{
			Field: "raw_input_contents", Want: fmt.Sprintf("an entry for each of %d inputs", next),
			Got: fmt.Sprintf("%d entries", len(m.raw)),
		}
	}
	return nil
}

func inputField(in *input) string    { return "inputs[" + routing.Quote(in.name) + "]" }
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
	r.in.reset()
	r.forget()
	r.out.Reset()
	clear(r.values)
	r.values = r.values[:0]
	r.Exchange, r.house, r.regions, r.data, r.given = transport.Exchange{}, nil, nil, nil, false
	r.web = false
	r.asked = asked{}
	requests.Put(r)
}

// forget lets go of the bytes of the data.
func (r *request) forget() {
	clear(r.bytes)
	r.bytes = r.bytes[:0]
}

// Names implements predict.Codec.
func (r *request) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, in := range r.in.inputs[:r.in.came] {
			if !yield(in.name) {
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

// Decode implements predict.Codec.
func (r *request) Decode(spec *tensor.Spec) (tensor.Tensor, error) {
	m := &r.in
	i := slices.IndexFunc(m.inputs[:m.came], func(in *input) bool { return in.name == spec.Name })
	if i < 0 {
		return tensor.Tensor{}, &tensor.FieldError{Want: "an input of that name", Got: "none"}
	}
	in := m.inputs[i]
	if want := datatype(spec.DType); in.datatype != want {
		return tensor.Tensor{}, &tensor.FieldError{Field: "datatype", Want: want, Got: routing.Quote(in.datatype)}
	}
	shape, err := taken(spec, in.shape)
	if err != nil {
		return tensor.Tensor{}, err
	}
	switch {
	case in.place != nil:
		return r.decodeShared(spec, in, shape)
	case in.list.text != nil:
		return r.decodeList(spec, in, shape)
	}
	came := elements.Came{Texts: in.texts, Left: in.left, Sizes: elements.Sizes{elements.Texts: len(in.texts)}}
	for _, e := range in.more {
		came.Sizes[e.List] = e.Count
	}
	if in.raw >= 0 {
		raw := m.raw[in.raw]
		came.Sizes[elements.Raw] = raw.Count
		if len(raw.Pieces) == 1 {
			came.Raw = raw.Pieces[0]
		} else {
			came.Left = raw
		}
	}
	names := &protocol
	if r.web {
		names = &inBodies
	}
	t, _, err := names.Decode(spec, shape, &came, nil)
	return t, err
}
