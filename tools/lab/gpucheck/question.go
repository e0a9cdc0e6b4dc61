package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/runtime/tensor/compare"
	"github.com/weftserve/weft/server/wire"
)

// question is inputs of a model, and the answer if one is recorded.
type question struct {
	inputs map[string]*weftv1.Tensor
	want   []compare.Output
}

// references is the file next to a model that has recorded questions and answers.
const references = "ref.json"

// recorded is such a file.
type recorded struct {
	Cases []struct{ Inputs, Outputs []recordedTensor }
}

// recordedTensor is written with the names of types of the Open Inference Protocol, and data as in Tensor.raw.
type recordedTensor struct {
	name string
	*weftv1.Tensor
}

// UnmarshalJSON fails for types that the API lacks.
func (r *recordedTensor) UnmarshalJSON(text []byte) error {
	var t struct {
		Name, Datatype string
		Shape          []int64
		Data           []byte `json:"data_b64"`
		Strings        []string
	}
	if err := json.Unmarshal(text, &t); err != nil {
		return err
	}
	number, known := weftv1.DataType_value["DATA_TYPE_"+strings.Replace(t.Datatype, "BYTES", "STRING", 1)]
	if !known {
		return fmt.Errorf("%s: unknown type %q", t.Name, t.Datatype)
	}
	*r = recordedTensor{t.Name, &weftv1.Tensor{Dtype: weftv1.DataType(number), Shape: t.Shape, Raw: t.Data}}
	for _, s := range t.Strings {
		r.StringValues = append(r.StringValues, []byte(s))
	}
	return nil
}

// questions returns the questions to ask a model: those recorded next to it, else ones made up from its signature.
func questions(t twin, s *weftv1.Signature) (all []question, err error) {
	path := filepath.Join(t.dir, references)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return madeUp(s), nil
	}
	var r recorded
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err == nil && len(r.Cases) == 0 {
		err = errors.New("it holds no cases")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, c := range r.Cases {
		q := question{inputs: map[string]*weftv1.Tensor{}}
		for _, in := range c.Inputs {
			q.inputs[in.name] = in.Tensor
		}
		for _, out := range c.Outputs {
			q.want = append(q.want, output(out.name, out.Tensor))
		}
		all = append(all, q)
	}
	return all, nil
}

// madeUp asks for one row, a few and more, with the same random numbers each time.
func madeUp(s *weftv1.Signature) []question {
	rng := rand.New(rand.NewPCG(3, 4))
	var all []question
	for _, rows := range []int64{1, 2, 7, 32} {
		q := question{inputs: map[string]*weftv1.Tensor{}}
		for _, in := range s.GetInputs() {
			m := &weftv1.Tensor{Dtype: in.GetDtype()}
			elements := int64(1)
			for i, size := range in.GetShape() {
				if size < 0 {
					const open = 8
					if size = open; in.BatchDim != nil && int(in.GetBatchDim()) == i {
						size = rows
					}
				}
				m.Shape = append(m.Shape, size)
				elements *= size
			}
			d := wire.DType(in.GetDtype())
			for range elements {
				text := strconv.Itoa(rng.IntN(2)) // any type has these two
				if d.IsFloat() {
					text = strconv.FormatFloat(rng.NormFloat64(), 'g', -1, 64)
				}
				element, err := tensor.ParseElement(d, text)
				if err != nil {
					continue // a type of a later release: the server will say that elements are missing
				}
				if d == tensor.String {
					m.StringValues = append(m.StringValues, []byte(text))
				} else {
					m.Raw = append(m.Raw, element...)
				}
			}
			q.inputs[in.GetName()] = m
		}
		all = append(all, q)
	}
	return all
}

// output is a tensor of an answer, the zero tensor if it is broken: that is like no other.
func output(name string, m *weftv1.Tensor) compare.Output {
	t, err := wire.Tensor(m)
	if err != nil {
		t = tensor.Tensor{}
	}
	return compare.Output{Name: name, BatchDim: tensor.NoBatch, Tensor: t}
}

func outputs(answer *weftv1.PredictResponse) []compare.Output {
	var all []compare.Output
	for name, m := range answer.GetOutputs() {
		all = append(all, output(name, m))
	}
	return all
}
