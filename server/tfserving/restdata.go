package tfserving

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"google.golang.org/grpc/mem"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/transport"
	"github.com/weftserve/weft/server/web"
)

// restRequest carries a body of JSON to the answer. It implements transport.Request and predict.Codec.
//
// In the row form, "instances" is a list with an entry for each row: the elements of the only input, or an object with
// a member for each. In the column form, "inputs" is the elements of the only input, or such an object. The answer has
// the form of the request: "predictions", a list of rows, or "outputs".
type restRequest struct {
	transport.Exchange

	house  *transport.Calls
	body   *[]byte // of house.Memory; inputs lie in it
	rows   bool    // the row form
	inputs []restInput
	copies []*[]byte // of house.Memory: decoded inputs
}

// restInput is an input as it came.
type restInput struct {
	name string // "": the only one, which needs no name
	web.List
}

// Take implements transport.Message; the body is read by parse.
func (*restRequest) Take(mem.BufferSlice) error { return nil }

// Type implements transport.Message.
func (*restRequest) Type() string { return "a body of JSON" }

// mostInputs bounds the inputs of a body: each takes many times the bytes that it has there.
const mostInputs = 1 << 10

// parse reads the body, but for the elements, which stay where they lie. size is how many bytes these take at most as
// tensors. The error is a *tensor.FieldError.
func (r *restRequest) parse() (size int, err error) {
	var turn protect.Turn
	defer turn.End()
	if len(*r.body) > web.SmallBody {
		turn.Begin()
	}
	in := web.Scanner{Text: *r.body, Turn: &turn}
	forms := 0
	err = in.Members([]string{"signature_name", "instances", "inputs"}, func(i int) (err error) {
		if i == 0 {
			var name string
			if name, err = in.String(); err == nil && name != "" && name != signatureName {
				err = &tensor.FieldError{
					Want: signatureName + ", or none: models of ONNX have one signature", Got: routing.Quote(name),
				}
			}
			return err
		}
		forms++
		r.rows = i == 1
		r.inputs, err = inputsOf(&in, r.rows)
		return err
	})
	if err == nil {
		err = in.End()
	}
	if err == nil && forms != 1 {
		err = &tensor.FieldError{
			Field: web.TheBody, Want: `either "instances", a list of rows, or "inputs", the inputs by name`,
			Got: []string{"neither", "", "both"}[forms],
		}
	}
	for i := range r.inputs {
		size += r.inputs[i].Most() // Decode takes what the model's type has
	}
	r.Inputs = len(r.inputs)
	return size, web.OfBody(err)
}

// inputsOf reads the value of "instances", if it is rows, or of "inputs".
func inputsOf(in *web.Scanner, rows bool) (all []restInput, err error) {
	if rows && in.Kind() != '[' {
		return nil, in.Unlike("a list with an entry for each row")
	}
	if rows && in.IsEmptyList() {
		return nil, &tensor.FieldError{Want: "a list with an entry for each row", Got: "an empty one"}
	}
	switch {
	case rows && in.IsListOfObjects():
		lists, err := in.Objects(mostInputs)
		for _, l := range lists {
			all = append(all, restInput{l.Member, l})
		}
		return all, err
	case !rows && in.IsObject():
		return all, in.Object(func(name []byte) error {
			one := restInput{name: string(name)}
			if len(all) == mostInputs {
				return web.Broken("more than %d inputs, which is very many", mostInputs)
			}
			l, err := in.Nested()
			one.List = l
			all = append(all, one)
			return web.InPart("["+routing.Quote(one.name)+"]", err)
		})
	}
	l, err := in.Nested()
	return []restInput{{"", l}}, err
}

// Unnamed implements predict.Unnaming.
func (r *restRequest) Unnamed() bool { return len(r.inputs) == 1 && r.inputs[0].name == "" }

// Names implements predict.Codec.
func (r *restRequest) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range r.inputs {
			if r.inputs[i].name != "" && !yield(r.inputs[i].name) {
				return
			}
		}
	}
}

// Decode implements predict.Codec. The type is the model's; the shape is that of the lists.
func (r *restRequest) Decode(spec *tensor.Spec) (tensor.Tensor, error) {
	i := slices.IndexFunc(r.inputs, func(in restInput) bool { return in.name == spec.Name })
	if i < 0 && r.Unnamed() {
		i = 0
	}
	if i < 0 {
		return tensor.Tensor{}, &tensor.FieldError{Want: "an input of that name", Got: "none"}
	}
	in := &r.inputs[i]
	if _, err := predict.Elements(spec, in.Shape); err != nil {
		return tensor.Tensor{}, err
	}
	if err := r.CheckRows(spec, in.Shape); err != nil {
		return tensor.Tensor{}, err
	}
	if err := in.CheckSize(spec.DType, r.house.MaxMessageBytes); err != nil {
		return tensor.Tensor{}, err
	}
	t := tensor.Tensor{DType: spec.DType, Shape: in.Shape}
	data, err := in.Decode(&t, r.house.Memory, dataTypes[spec.DType].String())
	if data != nil {
		r.copies = append(r.copies, data)
	}
	return t, err
}

// Release implements transport.Request.
func (r *restRequest) Release() {
	r.Leave()
	for _, c := range r.copies {
		r.house.Memory.Put(c)
	}
	if r.body != nil {
		r.house.Memory.Put(r.body)
	}
	r.body, r.copies = nil, nil
}

// Encode implements predict.Codec. The tensors are the answer's, which gives their memory back when it was written.
func (r *restRequest) Encode(result *predict.Result) error {
	a := &restAnswer{house: r.house, table: result.Table, rows: r.rows}
	if r.rows {
		a.count = r.inputs[0].Shape[0]
	}
	for spec, t := range result.Outputs() {
		a.outputs = append(a.outputs, restOutput{spec.Name, t})
	}
	err := r.house.CheckSize(a.size())
	for _, o := range a.outputs {
		// A row is an entry of the first dimension.
		if r.rows && (len(o.Shape) == 0 || o.Shape[0] != a.count) {
			err = &tensor.FieldError{
				Field: "instances", Want: fmt.Sprintf(`"inputs" in its place: output %s, of the shape %v, has no entry for `+
					"each of %d rows", routing.Quote(o.name), o.Shape, a.count), Got: "instances",
			}
			break
		}
	}
	if err != nil {
		a.free()
		return err
	}
	r.Answer = a
	return nil
}

// restAnswer is an answer of JSON. It implements web.Answer.
type restAnswer struct {
	house   *transport.Calls
	table   string // that led to the version; "": none did
	rows    bool
	count   int64 // of rows
	outputs []restOutput
}

type restOutput struct {
	name string
	tensor.Tensor
}

// size is how many bytes the tensors have.
func (a *restAnswer) size() (n int) {
	for i := range a.outputs {
		n += len(a.outputs[i].Data)
	}
	return n
}

// free gives the memory of the tensors back.
func (a *restAnswer) free() {
	for i := range a.outputs {
		a.house.Memory.Put(&a.outputs[i].Data)
	}
}

// Write implements web.Answer. It frees the tensors.
func (a *restAnswer) Write(v *web.Visit) {
	defer a.free()
	v.W.Header().Set("Content-Type", "application/json")
	if a.table != "" {
		v.W.Header().Set(transport.TableHeader, a.table)
	}
	size := 4*a.size() + 1<<10 // a guess: a float of four bytes has up to 16 characters
	v.Send(size, func(w io.Writer) {
		to := bufio.NewWriterSize(w, min(size, web.SmallBody))
		a.write(to)
		_ = to.Flush() // a caller that is gone needs no answer
	})
}

func (a *restAnswer) write(to *bufio.Writer) {
	var turn protect.Turn
	left := make([][]byte, len(a.outputs))
	for i := range a.outputs {
		left[i] = a.outputs[i].Data
	}
	// one writes the next entry of the outputs: of a single one its elements, else an object.
	one := func(shape func(tensor.Shape) tensor.Shape) {
		for i := range a.outputs {
			o := &a.outputs[i]
			if len(a.outputs) > 1 {
				_, _ = fmt.Fprintf(to, "%s%s:", map[bool]string{true: "{", false: ","}[i == 0], web.AppendQuoted(nil, o.name))
			}
			left[i] = web.WriteNested(to, o.DType, shape(o.Shape), left[i], strings.HasSuffix(o.name, "_bytes"), &turn)
		}
		switch len(a.outputs) {
		case 0:
			_, _ = to.WriteString("{}")
		case 1:
		default:
			_ = to.WriteByte('}')
		}
	}
	if !a.rows {
		_, _ = to.WriteString(`{"outputs":`)
		one(func(s tensor.Shape) tensor.Shape { return s })
		_ = to.WriteByte('}')
		return
	}
	_, _ = to.WriteString(`{"predictions":[`)
	for i := range a.count {
		if i > 0 {
			_ = to.WriteByte(',')
		}
		one(func(s tensor.Shape) tensor.Shape { return s[1:] })
	}
	_, _ = to.WriteString("]}")
}
