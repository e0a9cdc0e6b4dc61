package predict_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"iter"
	"maps"
	"math"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
)

// jsonTensor is a tensor of fp32, or claims to be one.
type jsonTensor struct {
	Shape  tensor.Shape `json:"shape"`
	Values []float32    `json:"values"`
}

// jsonLine is a protocol of its own: a request is a line, and so is its answer.
type jsonLine struct {
	ID      string                `json:"id,omitempty"`
	Model   string                `json:"model,omitempty"`
	Version int64                 `json:"version,omitempty"`
	Error   string                `json:"error,omitempty"`
	Inputs  map[string]jsonTensor `json:"inputs,omitempty"`
	Outputs map[string]jsonTensor `json:"outputs,omitempty"`

	answer *jsonLine
}

// Names implements predict.Codec.
func (l *jsonLine) Names() iter.Seq[string] { return maps.Keys(l.Inputs) }

// Decode implements predict.Codec.
func (l *jsonLine) Decode(input *tensor.Spec) (tensor.Tensor, error) {
	in := l.Inputs[input.Name]
	if _, err := predict.Elements(input, in.Shape); err != nil {
		return tensor.Tensor{}, err
	}
	t := tensor.Tensor{DType: tensor.Float32, Shape: in.Shape}
	for _, v := range in.Values {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(v))
	}
	return t, nil
}

// Encode implements predict.Codec.
func (l *jsonLine) Encode(r *predict.Result) error {
	l.answer = &jsonLine{ID: l.ID, Model: r.Model, Version: r.Version, Outputs: map[string]jsonTensor{}}
	for spec, t := range r.Outputs() {
		out := jsonTensor{Shape: t.Shape}
		for d := t.Data; len(d) > 0; d = d[4:] {
			out.Values = append(out.Values, math.Float32frombits(binary.LittleEndian.Uint32(d)))
		}
		l.answer.Outputs[spec.Name] = out
	}
	return nil
}

// serveLines answers each line of requests.
func serveLines(ctx context.Context, p *predict.Pipeline, requests io.Reader, answers io.Writer) error {
	lines, out := bufio.NewScanner(requests), json.NewEncoder(answers)
	for lines.Scan() {
		l := &jsonLine{}
		req := &predict.Request{Codec: l}
		if json.Unmarshal(lines.Bytes(), l) != nil {
			req.Fault = &tensor.FieldError{Field: "line", Want: "a request as JSON", Got: "none"}
		}
		req.Model, req.ID, req.Inputs = l.Model, l.ID, len(l.Inputs)
		at, err := p.Predict(ctx, req)
		if err != nil {
			l.answer = &jsonLine{ID: l.ID, Model: at.Model, Version: at.Version, Error: err.Error()}
		}
		err = out.Encode(l.answer)
		p.Leave(req)
		if err != nil {
			return err
		}
	}
	return lines.Err()
}
