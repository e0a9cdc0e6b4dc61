package openinference

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/mem"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/transport"
	"github.com/weftserve/weft/server/web"
	"github.com/weftserve/weft/server/wire/elements"
)

// request carries a ModelInferRequest from the bytes of its message, by gRPC or HTTP, to the bytes of its answer. It
// implements transport.Request and predict.Codec. It is pooled: newRequest takes one out, and Release clears it for
// another request. A field that Release does not clear leaks one caller's value into the next request.
type request struct {
	transport.Exchange

	house   *transport.Calls
	regions *Registry // nil: shared memory is off
	stream  bool      // it came on a ModelStreamInfer
	web     bool      // it came as JSON
	unknown int       // bytes of lists at most, whose types the message does not say
	in      inference.ModelInferRequest
	lifted  elements.Lifted // the large values of in, which has their indexes; empty for JSON
	inputs  []input         // of in, in the same order
	outputs []output        // of in, in the same order
	data    mem.BufferSlice // the buffers that lifted and inputs refer to; nil: none
	bytes   [][]byte        // the contents of data
	number  int64           // of the version that is asked for; Choice.Version points to it
	asked   asked
	out     elements.Writer
	values  [][]byte // of outputs, while they are encoded
	given   bool     // the values of out belong to the answer, whose sender frees them

	sharing bool      // the message names regions
	shared  int64     // bytes of inputs there
	copies  []*[]byte // of house.Memory, which letGo gives back: copied inputs, and outputs that the answer does not have
}

// input is an input, and where its elements lie if not in its contents. match refuses an input that has them in two
// places.
type input struct {
	*inference.ModelInferRequest_InferInputTensor

	raw    elements.Elements // its entry of raw_input_contents, or the bytes behind the JSON
	list   web.List          // of JSON
	place  *Part             // in shared memory; nil: it is not there
	copied *[]byte           // the copy of what is there; nil: it was not read
}

// output is an output that is asked for, and what is asked of it. At most one of place and classes is set.
type output struct {
	*inference.ModelInferRequest_InferRequestedOutputTensor

	place   *Part  // where it is to lie; nil: in the answer
	classes uint64 // how many of its largest elements are wanted in its place; 0: the output
}

// requests has the requests that were released, so that one like an earlier one allocates little.
var requests = sync.Pool{New: func() any { return new(request) }}

// newRequest returns an empty request. Its owner must release it, unless a handler panicked: then nobody knows who
// still uses it.
func newRequest(s *Service, stream bool) *request {
	r := requests.Get().(*request)
	r.house, r.regions, r.stream = s.Calls, s.Regions, stream
	return r
}

// Type implements transport.Message.
func (*request) Type() string { return "inference.ModelInferRequest" }

// large are the large values of a ModelInferRequest: raw_input_contents (7), and of inputs (5) in their contents (5)
// fp32_contents (6) and fp64_contents (7). Lists of whole numbers are decoded by generated code.
var large = elements.Fields{
	7: {List: elements.Raw},
	5: {Within: elements.Fields{5: {Within: elements.Fields{6: {List: elements.Float}, 7: {List: elements.Double}}}}},
}

// Take implements transport.Message. It keeps its reference to the data until Release, also where there is an error.
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

// spread makes an input or output of each tensor of the message, for what is to be known of it.
func (r *request) spread() {
	for _, in := range r.in.GetInputs() {
		r.inputs = append(r.inputs, input{ModelInferRequest_InferInputTensor: in})
	}
	for _, out := range r.in.GetOutputs() {
		r.outputs = append(r.outputs, output{ModelInferRequest_InferRequestedOutputTensor: out})
	}
}

// fill makes a request of the pipeline of the message, which has so many bytes. The first thing that is wrong becomes
// its Fault, with which the pipeline refuses it.
func (r *request) fill(size int) {
	m := &r.in
	r.Request = predict.Request{
		Model: m.GetModelName(), ID: m.GetId(), Inputs: len(m.GetInputs()), Stream: r.stream, Codec: r,
	}
	for _, o := range m.GetOutputs() {
		r.Outputs = append(r.Outputs, o.GetName())
	}
	var err error
	// In this order: parts of shared memory are not taken for a request whose parameters are wrong.
	r.asked, err = r.ask()
	if r.Chosen = r.asked.chosen; err != nil {
		r.Fault = err
		return
	}
	if r.Fault = r.locate(size); r.Fault != nil {
		return
	}
	a := &r.asked
	r.Episode, r.BeginEpisode, r.EndOfEpisode, r.Step = a.episode, a.begin, a.end, a.step
	r.MayKeepState = a.step == 0 // Triton's clients know no steps
	r.Priority, r.Target = a.priority, a.target
	r.TraceParent = a.trace
	if a.timeout > 0 { // it counts from here, as the time of arrival is not known yet; on a stream see Enter
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

// versionOf reads the number of a version, which the protocol has as text. The error is a *tensor.FieldError.
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

// match gives the raw entries to the inputs that have no contents, in their order: so Triton reads them, for the
// entries have no names. Inputs in shared memory have no entry. A body of JSON names the inputs of its bytes, see
// matchBody.
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
		case in.place != nil: // it takes no entry
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

// inputField and outputField are how errors name a tensor.
func inputField(in *input) string    { return "inputs[" + routing.Quote(in.GetName()) + "]" }
func outputField(name string) string { return "outputs[" + routing.Quote(name) + "]" }

// Release implements transport.Request. It must be called once, when nothing reads the inputs any more: data and copies
// go back to where they came from.
func (r *request) Release() {
	r.Reset()
	// The answer was not encoded to the end, or was copied: its values are still the request's.
	if !r.given {
		for _, v := range r.out.Values {
			r.house.Memory.Put(&v.Data)
		}
	}
	r.letGo()
	r.data.Free() // inputs may lie in it: nothing runs any more that reads them
	r.in.Reset()
	r.lifted.Reset()
	r.out.Reset()
	r.inputs, r.outputs, r.bytes, r.values = emptied(r.inputs), emptied(r.outputs), emptied(r.bytes), emptied(r.values)
	r.house, r.regions, r.data, r.given = nil, nil, nil, false
	r.web, r.unknown = false, 0
	r.asked = asked{}
	requests.Put(r)
}

// emptied returns a list without its elements, in the same memory unless that is large: one request of very many inputs
// must not keep that memory for good. The elements are cleared, since they refer to the message.
func emptied[T any](all []T) []T {
	const most = 64
	if cap(all) > most {
		return nil
	}
	clear(all)
	return all[:0]
}
