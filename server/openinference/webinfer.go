package openinference

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/calls"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/status"
	"github.com/weftserve/weft/server/weigh"
)

// jsonHeader is the header that says how many bytes of a body are JSON; the others are tensors.
const jsonHeader = "Inference-Header-Content-Length"

// webRequest is the JSON of a request.
type webRequest struct {
	ID         string            `json:"id"`
	Parameters map[string]scalar `json:"parameters"`
	Inputs     []struct {
		Name       string            `json:"name"`
		Datatype   string            `json:"datatype"`
		Shape      shape             `json:"shape"`
		Parameters map[string]scalar `json:"parameters"`
		Data       json.RawMessage   `json:"data"`
	} `json:"inputs"`
	Outputs []struct {
		Name       string            `json:"name"`
		Parameters map[string]scalar `json:"parameters"`
	} `json:"outputs"`
}

// scalar is a value of JSON that has none within it: a bool, a json.Number, a text, or nil.
type scalar struct{ value any }

// UnmarshalJSON implements json.Unmarshaler.
func (p *scalar) UnmarshalJSON(text []byte) error {
	if text[0] == '{' || text[0] == '[' {
		return errors.New("a parameter is a bool, a number or a text, and no list or object")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(&p.value)
}

// shape is that of a tensor, which has few dimensions.
type shape []int64

// UnmarshalJSON implements json.Unmarshaler.
func (s *shape) UnmarshalJSON(text []byte) error {
	const longest = 1 << 10
	if len(text) > longest {
		return errors.New("a shape has few dimensions")
	}
	return json.Unmarshal(text, (*[]int64)(s))
}

// fewParts reports whether a text of JSON has so few objects and members that what is made of them is small: outside of
// texts, braces and colons are counted.
func fewParts(text []byte, turn *weigh.Turn) bool {
	const mostParts = 1 << 12
	parts, quoted := 0, false
	for i := 0; i < len(text); i++ {
		if i%16 == 0 {
			turn.Step(1)
		}
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case !quoted && (c == '{' || c == ':'):
			parts++
		}
	}
	return parts <= mostParts
}

// infer predicts.
func (s *Web) infer(v *visit) (any, error) {
	if encoding := v.r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, s.unsupported(v.ctx, "Content-Encoding "+routing.Quote(encoding), "send bodies as they are")
	}
	body, err := s.readBody(v)
	if err != nil {
		return nil, s.Fail(v.ctx, err, predict.Place{})
	}
	var turn weigh.Turn
	defer turn.End()
	if len(body) > smallBody {
		turn.Begin() // JSON takes several times its size
	}
	q, asBytes, err := s.readRequest(v, body, &turn)
	if err != nil {
		return nil, s.Fail(v.ctx, err, predict.Place{})
	}
	data, err := proto.Marshal(q)
	if err != nil {
		return nil, s.Fail(v.ctx, &status.BrokenMessageError{Want: "request of inference", Why: err.Error()}, predict.Place{})
	}
	turn.End() // until there is an answer
	if len(data) > s.MaxMessageBytes {
		err := &status.MessageTooLargeError{Limit: s.MaxMessageBytes, Inflated: true}
		return nil, s.Fail(v.ctx, err, predict.Place{})
	}
	r := newRequest(s.Service, false)
	if err := r.Take(mem.BufferSlice{mem.SliceBuffer(data)}); err != nil {
		r.Release()
		return nil, s.Fail(v.ctx, &status.BrokenMessageError{Want: r.Type(), Why: err.Error()}, predict.Place{})
	}
	if err := v.admission.Grow(r.Brings(v.caller)); err != nil {
		r.Release()
		return nil, s.Fail(v.ctx, err, predict.Place{})
	}
	v.slow()
	if v.caller != nil {
		_, asked, chosen := r.Asks()
		priority, err := v.caller.Priority(asked, chosen)
		if err != nil {
			r.Release()
			return nil, s.Fail(v.ctx, err, predict.Place{})
		}
		r.Admit(v.caller, priority, access.Admission{}, nil)
	}
	answer, err := s.Run(v.ctx, r)
	if err != nil {
		return nil, err
	}
	encoded := answer.(*calls.Encoded)
	defer encoded.Pieces().Free()
	const copies = 4 // of an answer, as bytes and as text
	if size := encoded.Bytes(); size > smallBody {
		if err := s.hold(v, int64(copies*size)); err != nil {
			return nil, s.Fail(v.ctx, err, predict.Place{})
		}
		turn.Begin()
	}
	var m inference.ModelInferResponse
	if err := proto.Unmarshal(encoded.Pieces().Materialize(), &m); err != nil {
		return nil, s.Fail(v.ctx, err, predict.Place{})
	}
	made, err := inferredOf(&m, asBytes, &turn)
	if err != nil {
		return nil, s.Fail(v.ctx, err, predict.Place{})
	}
	return made, nil
}

const (
	// smallBody is how large a body may be that always has room, and mostBodies how much all others have together.
	smallBody  = 64 << 10
	mostBodies = 64 << 20
)

// hold takes so much memory more for bodies and answers, until the request ends. One that is alone gets any.
func (s *Web) hold(v *visit, bytes int64) error {
	v.held += bytes
	if all := s.bodies.Add(bytes); all > mostBodies && all > v.held {
		return &status.CrowdedError{Most: mostBodies}
	}
	return nil
}

// readBody reads a body, unless those that are under way are too large. One that is not small counts with its whole
// size as soon as so much has come that it is not small.
func (s *Web) readBody(v *visit) ([]byte, error) {
	most := int64(s.MaxMessageBytes)
	size := v.r.ContentLength
	if size > most {
		return nil, &status.MessageTooLargeError{Bytes: int(size), Limit: s.MaxMessageBytes}
	}
	counted := 0 // of its quota
	from := v.bounded(most)
	body, err := io.ReadAll(io.LimitReader(from, smallBody))
	if err == nil && len(body) == smallBody {
		if size < 0 {
			size = most
		}
		if err := s.hold(v, size); err != nil {
			return nil, err
		}
		counted = max(0, int(v.r.ContentLength))
		if err := v.admission.Grow(counted); err != nil {
			return nil, err
		}
		rest, end := io.ReadAll(from)
		body, err = append(body, rest...), end
	}
	if _, is := errors.AsType[*http.MaxBytesError](err); is {
		return nil, &status.MessageTooLargeError{Bytes: int(most) + 1, Limit: s.MaxMessageBytes}
	}
	if err != nil {
		return nil, broken("it could not be read: %v", err)
	}
	return body, v.admission.Grow(len(body) - counted)
}

func broken(format string, args ...any) error {
	return &tensor.FieldError{
		Field: "the body", Want: "JSON as docs/OPEN_INFERENCE.md has it", Got: fmt.Sprintf(format, args...),
	}
}

// readRequest reads a request. asBytes says which outputs are wanted as bytes.
func (s *Web) readRequest(v *visit, body []byte, turn *weigh.Turn) (
	_ *inference.ModelInferRequest, asBytes func(output string) bool, _ error,
) {
	head, tail := body, []byte(nil)
	if length := v.r.Header.Get(jsonHeader); length != "" {
		n, err := strconv.Atoi(length)
		if err != nil || n < 0 || n > len(body) {
			return nil, nil, broken("%s is %q of a body of %d bytes", jsonHeader, length, len(body))
		}
		head, tail = body[:n], body[n:]
	}
	if !fewParts(head, turn) {
		return nil, nil, broken("it has very many objects or members")
	}
	var in webRequest
	if err := json.Unmarshal(head, &in); err != nil {
		return nil, nil, broken("%v", err)
	}
	q := &inference.ModelInferRequest{ModelName: v.model(), ModelVersion: v.version(), Id: in.ID}
	all := in.Parameters["binary_data_output"].value == true
	delete(in.Parameters, "binary_data_output")
	var err error
	if q.Parameters, err = parametersOf("parameters", in.Parameters); err != nil {
		return nil, nil, err
	}
	left := s.MaxMessageBytes // bytes of elements
	for i := range in.Inputs {
		from := &in.Inputs[i]
		field := "inputs[" + routing.Quote(from.Name) + "]"
		var raw []byte
		come := len(from.Data) > 0 // elements do
		if size, is := from.Parameters["binary_data_size"].value.(json.Number); is {
			n, err := strconv.Atoi(size.String())
			if err != nil || n < 0 || n > len(tail) {
				return nil, nil, &tensor.FieldError{
					Field: field + ".parameters.binary_data_size", Want: fmt.Sprintf("at most the %d bytes that are left", len(tail)),
					Got: size.String(),
				}
			}
			raw, tail = tail[:n:n], tail[n:]
			delete(from.Parameters, "binary_data_size")
			come = true
		} else if raw, err = rawOf(field+".data", from.Datatype, from.Data, left, turn); err != nil {
			return nil, nil, err
		}
		left -= len(raw)
		to := &inference.ModelInferRequest_InferInputTensor{Name: from.Name, Datatype: from.Datatype, Shape: from.Shape}
		if to.Parameters, err = parametersOf(field+".parameters", from.Parameters); err != nil {
			return nil, nil, err
		}
		q.Inputs = append(q.Inputs, to)
		switch shared := to.GetParameters()["shared_memory_region"] != nil; {
		case shared && come:
			return nil, nil, &tensor.FieldError{Field: field, Want: "no data beside shared_memory_region", Got: "both"}
		case !shared:
			q.RawInputContents = append(q.RawInputContents, raw)
		}
	}
	if len(tail) > 0 {
		return nil, nil, broken("%d bytes belong to no input", len(tail))
	}
	var binary, text []string
	for i := range in.Outputs {
		from := &in.Outputs[i]
		switch from.Parameters["binary_data"].value {
		case true:
			binary = append(binary, from.Name)
		case false:
			text = append(text, from.Name)
		}
		delete(from.Parameters, "binary_data")
		to := &inference.ModelInferRequest_InferRequestedOutputTensor{Name: from.Name}
		field := "outputs[" + routing.Quote(from.Name) + "].parameters"
		if to.Parameters, err = parametersOf(field, from.Parameters); err != nil {
			return nil, nil, err
		}
		q.Outputs = append(q.Outputs, to)
	}
	return q, func(output string) bool {
		return slices.Contains(binary, output) || all && !slices.Contains(text, output)
	}, nil
}

func parametersOf(field string, values map[string]scalar) (map[string]*inference.InferParameter, error) {
	out := make(map[string]*inference.InferParameter, len(values))
	for key, value := range values {
		if out[key] = parameterOf(value.value); out[key] == nil {
			return nil, &tensor.FieldError{
				Field: field + "[" + routing.Quote(key) + "]", Want: "a bool, a number or a text", Got: "null",
			}
		}
	}
	return out, nil
}

// inferred is an answer: JSON, and the outputs that are bytes.
type inferred struct {
	head []byte
	tail [][]byte
}

// write answers.
func (a *inferred) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	if len(a.tail) > 0 {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set(jsonHeader, strconv.Itoa(len(a.head)))
	}
	size := len(a.head)
	for _, t := range a.tail {
		size += len(t)
	}
	w.Header().Set("Content-Length", strconv.Itoa(size))
	_, _ = w.Write(a.head) // who is gone needs no answer
	for _, t := range a.tail {
		_, _ = w.Write(t)
	}
}

// webOutput is the JSON of an output.
type webOutput struct {
	Name       string          `json:"name"`
	Datatype   string          `json:"datatype"`
	Shape      []int64         `json:"shape"`
	Parameters map[string]any  `json:"parameters,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
}

// inferredOf makes an answer of a message.
func inferredOf(m *inference.ModelInferResponse, asBytes func(string) bool, turn *weigh.Turn) (*inferred, error) {
	a := &inferred{}
	head := struct {
		Model      string         `json:"model_name"`
		Version    string         `json:"model_version"`
		ID         string         `json:"id,omitempty"`
		Parameters map[string]any `json:"parameters,omitempty"`
		Outputs    []webOutput    `json:"outputs"`
	}{Model: m.GetModelName(), Version: m.GetModelVersion(), ID: m.GetId(), Parameters: map[string]any{}}
	for key, p := range m.GetParameters() {
		head.Parameters[key] = plainParameter(p)
	}
	for i, o := range m.GetOutputs() {
		out := webOutput{Name: o.GetName(), Datatype: o.GetDatatype(), Shape: o.GetShape()}
		if out.Shape == nil {
			out.Shape = []int64{}
		}
		raw := m.GetRawOutputContents()[i]
		switch parameters := o.GetParameters(); {
		case len(parameters) > 0: // it is in shared memory
			out.Parameters = map[string]any{}
			for key, p := range parameters {
				out.Parameters[key] = plainParameter(p)
			}
		case asBytes(out.Name):
			out.Parameters = map[string]any{"binary_data_size": len(raw)}
			a.tail = append(a.tail, raw)
		default:
			data, err := dataOf(out.Name, out.Datatype, raw, turn)
			if err != nil {
				return nil, err
			}
			out.Data = data
		}
		head.Outputs = append(head.Outputs, out)
	}
	var err error
	a.head, err = json.Marshal(head)
	return a, err
}
