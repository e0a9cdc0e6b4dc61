package app

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// named are tensors of the Open Inference Protocol by name.
type named map[string]*tensorData

type tensorData struct {
	datatype string
	shape    []int64
	raw      []byte
}

// infer asks a version of a model for all of its outputs.
func infer(ctx context.Context, conn grpc.ClientConnInterface, model string, version int64, inputs named,
) (named, error) {
	q := &inference.ModelInferRequest{ModelName: model}
	if version > 0 {
		q.ModelVersion = strconv.FormatInt(version, 10)
	}
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		in := inputs[name]
		q.Inputs = append(q.Inputs, &inference.ModelInferRequest_InferInputTensor{
			Name: name, Datatype: in.datatype, Shape: in.shape,
		})
		q.RawInputContents = append(q.RawInputContents, in.raw)
	}
	answer, err := inference.NewGRPCInferenceServiceClient(conn).ModelInfer(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("%s/%d: %w", model, version, err)
	}
	outputs := named{}
	for i, out := range answer.GetOutputs() {
		outputs[out.GetName()] = &tensorData{out.GetDatatype(), out.GetShape(), answer.GetRawOutputContents()[i]}
	}
	return outputs, nil
}

// randomInputs makes three rows for each input of a model. Other open dimensions get a size of 20.
func randomInputs(ctx context.Context, conn grpc.ClientConnInterface, model string) (named, error) {
	client := inference.NewGRPCInferenceServiceClient(conn)
	about, err := client.ModelMetadata(ctx, &inference.ModelMetadataRequest{Name: model})
	if err != nil {
		return nil, err
	}
	rng, inputs := rand.New(rand.NewPCG(1, 0)), named{}
	for _, in := range about.GetInputs() {
		data := &tensorData{datatype: in.GetDatatype(), shape: slices.Clone(in.GetShape())}
		size := int64(1)
		for i, n := range data.shape {
			if n < 0 {
				data.shape[i] = 20
			}
			if i == 0 {
				data.shape[i] = 3
			}
			size *= data.shape[i]
		}
		for range size {
			switch data.datatype {
			case "FP32":
				data.raw = binary.LittleEndian.AppendUint32(data.raw, math.Float32bits(2*rng.Float32()-1))
			case "UINT8":
				data.raw = append(data.raw, byte(rng.Uint32()))
			default:
				return nil, fmt.Errorf("input %s is %s", in.GetName(), data.datatype)
			}
		}
		inputs[in.GetName()] = data
	}
	return inputs, nil
}

// chain asks the steps of a pipeline one after the other.
func chain(ctx context.Context, conn grpc.ClientConnInterface, p *modelrepo.Pipeline, inputs named) (named, error) {
	values, outputs := maps.Clone(inputs), named{}
	for _, s := range p.Steps {
		in := named{}
		for name, from := range s.Inputs {
			in[name] = values[from]
		}
		for range s.Repeat {
			out, err := infer(ctx, conn, s.Model, s.Version, in)
			if err != nil {
				return nil, err
			}
			for input, output := range s.Carry {
				in[input] = out[output]
			}
			for name, value := range out {
				values[s.Name+"."+name] = value
			}
		}
	}
	for name, from := range p.Outputs {
		outputs[name] = values[from]
	}
	return outputs, nil
}

// chained compares the newest version of a pipeline with its steps.
func (s *script) chained(args []string) (string, error) {
	repository, err := modelrepo.Open(s.MkAbs(args[0]))
	s.Check(err)
	ctx := s.t.Context()
	var p *modelrepo.Pipeline
	for _, m := range repository.Scan().Models {
		if m.Name == args[1] && len(m.Selected) > 0 {
			p = m.Selected[len(m.Selected)-1].Pipeline
		}
	}
	if p == nil {
		return "", fmt.Errorf("%s has no pipeline %s", args[0], args[1])
	}
	inputs, err := randomInputs(ctx, s.r.conn, args[1])
	if err != nil {
		return "", err
	}
	got, err := infer(ctx, s.r.conn, args[1], 0, inputs)
	if err != nil {
		return "", err
	}
	want, err := chain(ctx, s.r.conn, p, inputs)
	if err != nil {
		return "", err
	}
	var said strings.Builder
	for _, name := range slices.Sorted(maps.Keys(want)) {
		g, w := got[name], want[name]
		if g == nil || g.datatype != w.datatype || !slices.Equal(g.shape, w.shape) || !alike(g, w) {
			return "", fmt.Errorf("output %s is %v, and %v by the steps", name, g, w)
		}
		fmt.Fprintf(&said, "%s %s %v\n", name, g.datatype, g.shape)
	}
	return said.String(), nil
}

// alike reports whether two tensors of one type and shape have the same elements, but for the order of sums: ONNX
// Runtime may fuse nodes of two steps.
func alike(a, b *tensorData) bool {
	if a.datatype != "FP32" {
		return bytes.Equal(a.raw, b.raw)
	}
	for i := 0; i < len(a.raw); i += 4 {
		x := math.Float32frombits(binary.LittleEndian.Uint32(a.raw[i:]))
		y := math.Float32frombits(binary.LittleEndian.Uint32(b.raw[i:]))
		if !(math.Abs(float64(x-y)) <= 1e-5*max(1, math.Abs(float64(y)))) {
			return false
		}
	}
	return true
}
