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
	ID         string         `json:"id"`
	Parameters map[string]any `json:"parameters"`
	Inputs     []struct {
		Name       string          `json:"name"`
		Datatype   string          `json:"datatype"`
		Shape      []int64         `json:"shape"`
		Parameters map[string]any  `json:"parameters"`
		Data       json.RawMessage `json:"data"`
	} `json:"inputs"`
	Outputs []struct {
		Name       string         `json:"name"`
		Parameters map[string]any `json:"parameters"`
	} `json:"outputs"`
}

// infer predicts.
func (s *Web) infer(v *visit) (any, error) {
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
	turn.End()
	if len(data) > s.MaxMessageBytes {
		err := &status.MessageTooLargeError{Limit: s.MaxMessageBytes, Inflated: true}
		return nil, s.Fail(v.ctx, err, predict.Place{})
	}
	r := newRequest(s.House, false)
	if err := r.Take(mem.BufferSlice{mem.SliceBuffer(data)}); err != nil {
		r.Release()
		return nil, s.Fail(v.ctx, &status.BrokenMessageError{Want: r.Type(), Why: err.Error()}, predict.Place{})
	}
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
	var m inference.ModelInferResponse
	if err := proto.Unmarshal(encoded.Pieces().Materialize(), &m); err != nil {
		return nil, s.Fail(v.ctx, err, predict.Place{})
	}
	made, err := inferredOf(&m, asBytes)
	if err != nil {
		return nil, s.Fail(v.ctx, err, predict.Place{})
	}
	return made, nil
}

const (
	// smallBody is how large a body may be that is always read, and mostBodies how large all others together.
	smallBody  = 64 << 10
	mostBodies = 64 << 20
)

// readBody reads a body, unless the others that are under way are too large. It holds its place in them until the
// request was answered.
func (s *Web) readBody(v *visit) ([]byte, error) {
	size := v.r.ContentLength
	if size < 0 || size > int64(s.MaxMessageBytes) {
		size = int64(s.MaxMessageBytes)
	}
	if size > smallBody {
		v.held = size
		if s.bodies.Add(size) > max(mostBodies, int64(s.MaxMessageBytes)) {
			return nil, &status.CrowdedError{Most: mostBodies}
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(v.w, v.r.Body, int64(s.MaxMessageBytes)))
	if tooLarge, is := errors.AsType[*http.MaxBytesError](err); is {
		return nil, &status.MessageTooLargeError{
			Bytes: int(max(v.r.ContentLength, tooLarge.Limit+1)), Limit: s.MaxMessageBytes,
		}
	}
	if err != nil {
		return nil, broken("it could not be read: %v", err)
	}
	return body, v.admission.Grow(len(body))
}

func broken(format string, args ...any) error {
	return &status.BrokenMessageError{Want: "request of inference in JSON", Why: fmt.Sprintf(format, args...)}
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
	var in webRequest
	d := json.NewDecoder(bytes.NewReader(head))
	d.UseNumber()
	if err := d.Decode(&in); err != nil {
		return nil, nil, broken("%v", err)
	}
	q := &inference.ModelInferRequest{ModelName: v.model(), ModelVersion: v.version(), Id: in.ID}
	all := in.Parameters["binary_data_output"] == true
	delete(in.Parameters, "binary_data_output")
	var err error
	if q.Parameters, err = parametersOf("parameters", in.Parameters); err != nil {
		return nil, nil, err
	}
	for i := range in.Inputs {
		from := &in.Inputs[i]
		field := "inputs[" + routing.Quote(from.Name) + "]"
		var raw []byte
		if size, is := from.Parameters["binary_data_size"].(json.Number); is {
			n, err := strconv.Atoi(size.String())
			if err != nil || n < 0 || n > len(tail) {
				return nil, nil, &tensor.FieldError{
					Field: field + ".parameters.binary_data_size", Want: fmt.Sprintf("at most the %d bytes that are left", len(tail)),
					Got: size.String(),
				}
			}
			raw, tail = tail[:n:n], tail[n:]
			delete(from.Parameters, "binary_data_size")
		} else if raw, err = rawOf(field+".data", from.Datatype, from.Data, s.MaxMessageBytes, turn); err != nil {
			return nil, nil, err
		}
		to := &inference.ModelInferRequest_InferInputTensor{Name: from.Name, Datatype: from.Datatype, Shape: from.Shape}
		if to.Parameters, err = parametersOf(field+".parameters", from.Parameters); err != nil {
			return nil, nil, err
		}
		q.Inputs, q.RawInputContents = append(q.Inputs, to), append(q.RawInputContents, raw)
	}
	if len(tail) > 0 {
		return nil, nil, broken("%d bytes belong to no input", len(tail))
	}
	var binary, text []string
	for i := range in.Outputs {
		from := &in.Outputs[i]
		switch from.Parameters["binary_data"] {
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

func parametersOf(field string, values map[string]any) (map[string]*inference.InferParameter, error) {
	out := make(map[string]*inference.InferParameter, len(values))
	for key, value := range values {
		if out[key] = parameterOf(value); out[key] == nil {
			return nil, &tensor.FieldError{
				Field: field + "[" + routing.Quote(key) + "]", Want: "a bool, a number or a text", Got: fmt.Sprintf("%T", value),
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
func inferredOf(m *inference.ModelInferResponse, asBytes func(string) bool) (*inferred, error) {
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
		if asBytes(out.Name) {
			out.Parameters = map[string]any{"binary_data_size": len(raw)}
			a.tail = append(a.tail, raw)
		} else {
			data, err := dataOf(out.Name, out.Datatype, raw)
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
