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

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/shadow"
	"github.com/weftserve/weft/server/wire"
)

// question is inputs of a model, and the answer if one is recorded.
type question struct {
	inputs map[string]*weftv1.Tensor
	want   []shadow.Output
}

// references is the file next to a model that has recorded questions and answers.
const references = "ref.json"

// recorded is such a file. Types have the names of the Open Inference Protocol, data are as Tensor.raw.
type recorded struct {
	Cases []struct{ Inputs, Outputs []recordedTensor }
}

type recordedTensor struct {
	Name, Datatype string
	Shape          []int64
	Data           []byte `json:"data_b64"`
	Strings        []string
}

func (r *recordedTensor) message() (*weftv1.Tensor, error) {
	name := r.Datatype
	if name == "BYTES" {
		name = "STRING"
	}
	number, known := weftv1.DataType_value["DATA_TYPE_"+name]
	if !known {
		return nil, fmt.Errorf("%s: unknown type %q", r.Name, r.Datatype)
	}
	m := &weftv1.Tensor{Dtype: weftv1.DataType(number), Shape: r.Shape, Raw: r.Data}
	for _, s := range r.Strings {
		m.StringValues = append(m.StringValues, []byte(s))
	}
	return m, nil
}

// questions returns the questions to ask a model: those recorded next to it, else ones made up from its signature.
func questions(t twin, s *weftv1.Signature) ([]question, error) {
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
	var all []question
	for _, c := range r.Cases {
		q := question{inputs: map[string]*weftv1.Tensor{}}
		for _, in := range c.Inputs {
			if q.inputs[in.Name], err = in.message(); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		}
		for _, out := range c.Outputs {
			m, err := out.message()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			q.want = append(q.want, output(out.Name, m))
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
func output(name string, m *weftv1.Tensor) shadow.Output {
	t, err := wire.Tensor(m)
	if err != nil {
		t = tensor.Tensor{}
	}
	return shadow.Output{Name: name, BatchDim: tensor.NoBatch, Tensor: t}
}

func outputs(answer *weftv1.PredictResponse) []shadow.Output {
	var all []shadow.Output
	for name, m := range answer.GetOutputs() {
		all = append(all, output(name, m))
	}
	return all
}
