package openinference

import (
	"iter"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/transport"
	"github.com/weftserve/weft/server/wire/elements"
)

// Names implements predict.Codec.
func (r *request) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, in := range r.in.GetInputs() {
			if in.GetName() == "" && r.Unnamed() {
				return
			}
			if !yield(in.GetName()) {
				return
			}
		}
	}
}

// Unnamed implements predict.Unnaming. Messages of gRPC name each input.
func (r *request) Unnamed() bool { return r.web && len(r.inputs) == 1 && r.inputs[0].GetName() == "" }

// protocol is how a message of gRPC carries elements. It has no list for fp16 and bf16, and its answers are all raw.
var protocol = elements.Protocol{RawTexts: true, RawHalves: true, Names: [elements.Lists]string{
	elements.Raw: "raw_input_contents", elements.Float: "contents.fp32_contents",
	elements.Double: "contents.fp64_contents", elements.Int32: "contents.int_contents",
	elements.Int64: "contents.int64_contents", elements.Uint32: "contents.uint_contents",
	elements.Uint64: "contents.uint64_contents", elements.Bool: "contents.bool_contents",
	elements.Texts: "contents.bytes_contents",
}}

// inBodies is how a body of HTTP carries elements: as bytes behind the JSON, or in it. In the JSON all types have one
// list, and lists of numbers may have halves.
var inBodies = elements.Protocol{RawTexts: true, Names: [elements.Lists]string{
	elements.Raw: `parameters["binary_data_size"]`, elements.Float: "data", elements.Double: "data",
	elements.Int32: "data", elements.Int64: "data", elements.Uint32: "data", elements.Uint64: "data",
	elements.Bool: "data", elements.Texts: "data",
}}

// contents are the lists of InferTensorContents, by the numbers of their fields.
var contents = [...]elements.List{
	1: elements.Bool, 2: elements.Int32, 3: elements.Int64, 4: elements.Uint32, 5: elements.Uint64,
	6: elements.Float, 7: elements.Double, 8: elements.Texts,
}

// sizesOf counts what each list has. It allocates nothing for an input without contents, as raw ones are.
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

// Decode implements predict.Codec. It finds out where the elements of the input are: in shared memory, in JSON, in a
// raw entry or bytes behind the JSON, or in a typed list. match has seen to it that they are in one place.
func (r *request) Decode(spec *tensor.Spec) (tensor.Tensor, error) {
	i := slices.IndexFunc(r.inputs, func(in input) bool { return in.GetName() == spec.Name })
	if i < 0 && r.Unnamed() {
		i = 0
	}
	if i < 0 {
		return tensor.Tensor{}, &tensor.FieldError{Want: "an input of that name", Got: "none"}
	}
	in := &r.inputs[i]
	// In JSON the type may be left to the model, and the shape to the lists.
	if want := datatype(spec.DType); in.GetDatatype() != want && (in.list.Text == nil || in.GetDatatype() != "") {
		return tensor.Tensor{}, &tensor.FieldError{Field: "datatype", Want: want, Got: routing.Quote(in.GetDatatype())}
	}
	claimed := in.GetShape()
	if in.list.Nest != nil {
		claimed = shapeOf(spec, &in.list)
	}
	shape, err := taken(spec, claimed)
	if err != nil {
		return tensor.Tensor{}, err
	}
	switch {
	case in.place != nil:
		return r.decodeShared(spec, in, shape)
	case in.list.Text != nil:
		return r.decodeList(spec, in, shape)
	}
	// Lists of floats may have been lifted; then the message has the index of the list in their place.
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

// output returns what was asked of output i of the answer. Outputs are answered in the order in which they were asked
// for, or all of them if none was.
func (r *request) output(i int) *output {
	if i < len(r.outputs) {
		return &r.outputs[i]
	}
	return &unasked
}

// unasked is the output of a request that asks for none in particular.
var unasked output

// CheckOutput implements predict.OutputChecker. It refuses classes of what cannot be ordered, and an output that will
// be larger than its part of a region, before the model runs. Where a dimension is not known until then, encodeShared
// looks.
func (r *request) CheckOutput(i int, spec *tensor.Spec, rows int) error {
	o := &r.outputs[i]
	if o.classes > 0 && !ranks(spec.DType) {
		return &tensor.FieldError{
			Field: outputField(o.GetName()) + `.parameters["classification"]`, Want: "an output of numbers",
			Got: "one of " + datatype(spec.DType),
		}
	}
	// The shape of the answer, as far as it is known: the rows are those of the request.
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

// Encode implements predict.Codec. Answers are raw whatever the request was: clients read nothing else. They are
// encoded by hand, since generated code would copy each output twice; the numbers are those of the fields of
// ModelInferResponse.
//
// Raw outputs are a list beside the descriptions of the outputs, so the values come after all of these. An output in
// shared memory has an empty entry there. An answer over HTTP is encoded so, too, and converted by inferredOf.
func (r *request) Encode(result *predict.Result) error {
	w := &r.out
	w.Reset()
	w.Text(1, result.Model)
	w.Text(2, strconv.FormatInt(result.Version, 10))
	w.Text(3, r.ID)
	if result.Slot != "" {
		parameterOut(w, "slot", result.Slot)
		parameterOut(w, "table", result.Table)
	}
	if result.Repeated {
		parameterOut(w, "sequence_repeated", true)
	}
	if result.Skipped > 0 {
		parameterOut(w, "sequence_skipped", int64(result.Skipped))
	}
	if r.stream && r.asked.final {
		parameterOut(w, "triton_final_response", true)
	}
	r.values = r.values[:0]
	for spec, t := range result.Outputs() {
		o := r.output(len(r.values))
		t.Shape = given(spec, t.Shape)
		if o.classes > 0 || o.place != nil {
			data := t.Data
			r.copies = append(r.copies, &data) // the answer does not have it, so letGo gives it back
		}
		if o.classes > 0 {
			var err error
			if t, err = classes(spec, &t, o.classes, r.house.MaxMessageBytes); err != nil {
				return err
			}
		}
		begin := len(w.Head)
		w.Text(1, spec.Name)
		w.Text(2, datatype(t.DType))
		w.Numbers(3, t.Shape)
		if o.place != nil {
			if err := r.encodeShared(w, o, t.Data); err != nil {
				return err
			}
			t.Data = nil
		}
		w.Wrap(5, begin, 0)
		r.values = append(r.values, t.Data)
	}
	// raw_output_contents: one entry for each output, by its place.
	for _, data := range r.values {
		if w.Announce(6, len(data)); len(data) > 0 {
			w.Value(data)
		}
	}
	if r.stream { // the message is infer_response of a ModelStreamInferResponse
		w.Wrap(2, 0, w.Size)
	}
	if err := r.house.CheckSize(w.Bytes()); err != nil {
		return err
	}
	r.Answer, r.given = transport.Encode(w, r.house.Memory)
	return nil
}

// The fields of InferParameter that answers have, by number.
const boolParam, int64Param, textParam = 1, 2, 3

// parameterOut appends an entry of the map of parameters, whose value is a bool, an int64 or a string. The map is field
// 4 of an answer as well as of an output.
func parameterOut(w *elements.Writer, key string, value any) {
	entry := len(w.Head)
	w.Text(1, key)
	begin := len(w.Head)
	number := func(field protowire.Number, n uint64) {
		w.Head = protowire.AppendVarint(protowire.AppendTag(w.Head, field, protowire.VarintType), n)
	}
	switch v := value.(type) { // it is in a oneof, where generated code writes zeros, too
	case bool:
		number(boolParam, protowire.EncodeBool(v))
	case int64:
		number(int64Param, uint64(v))
	case string:
		w.Head = protowire.AppendString(protowire.AppendTag(w.Head, textParam, protowire.BytesType), v)
	}
	w.Wrap(2, begin, 0)
	w.Wrap(4, entry, 0)
}
