package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/weftserve/weft/internal/onnxgraph/sketch"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/tools/lab/harness"
)

// echoModel answers what it is asked, and is never changed by calls of AdminService: it shows that the server is well.
const echoModel = "echo"

// models are the served ones, as sketches. Together they take most element types, rows and none, and strings.
var models = map[string]string{
	echoModel: `x[N,4]; y = Identity(x); y`,
	"texts":   `x:string[N]; y = Identity(x); y`,
	"scalars": `a:int64[] b:bool[]; Identity(a), Identity(b)`,
	"sum":     `x[N,4] y:double[N] z:i32[N,2]; ReduceSum(x, [1]), Identity(y), Identity(z)`,
	"small":   `x:u8[N,3] y:half[N,1]; Identity(x), Identity(y)`,
}

// shared is the key of a file of shared memory that callers may register, and read and write after.
var shared = fmt.Sprintf("/weft-fuzzlive-%d", os.Getpid())

// share makes that file, and returns what removes it.
func share() (remove func(), err error) {
	path := filepath.Join("/dev/shm", shared)
	return func() { _ = os.Remove(path) }, os.WriteFile(path, make([]byte, regionSize), 0o600)
}

// others are models that calls of AdminService may change.
var others = []string{"texts", "scalars", "sum", "small"}

// writeModels writes a repository.
func writeModels(folder string) error {
	files := map[string][]byte{}
	for name, text := range models {
		m, err := sketch.Parse(text)
		if err != nil {
			return err
		}
		files[name+"/1/model.onnx"] = m.Graph.Marshal()
	}
	return harness.WriteAll(folder, files)
}

// sound returns a request that a model must answer.
func sound(rng *rand.Rand, model string) *weftv1.PredictRequest {
	rows := 1 + rng.Int64N(3)
	raw := func(d weftv1.DataType, size int64, shape ...int64) *weftv1.Tensor {
		for _, n := range shape {
			size *= n
		}
		return &weftv1.Tensor{Dtype: d, Shape: shape, Raw: make([]byte, size)}
	}
	q := &weftv1.PredictRequest{Model: &weftv1.ModelSpec{Name: model}, OutputEncoding: weftv1.OutputEncoding(rng.IntN(4))}
	switch model {
	case echoModel:
		x := &weftv1.Tensor{Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{rows, 4}}
		for range rows * 4 {
			if f := float32(rng.NormFloat64()); rows == 1 {
				x.FloatValues = append(x.FloatValues, f)
			} else {
				x.Raw = binary.LittleEndian.AppendUint32(x.GetRaw(), math.Float32bits(f))
			}
		}
		q.Inputs = map[string]*weftv1.Tensor{"x": x}
	case "texts":
		x := &weftv1.Tensor{Dtype: weftv1.DataType_DATA_TYPE_STRING, Shape: []int64{rows}}
		for range rows {
			x.StringValues = append(x.StringValues, []byte{byte(rng.Uint32()), 'a'})
		}
		q.Inputs = map[string]*weftv1.Tensor{"x": x}
	case "scalars":
		q.Inputs = map[string]*weftv1.Tensor{
			"a": {Dtype: weftv1.DataType_DATA_TYPE_INT64, Int64Values: []int64{rng.Int64()}},
			"b": {Dtype: weftv1.DataType_DATA_TYPE_BOOL, BoolValues: []bool{true}},
		}
	case "sum":
		q.Inputs = map[string]*weftv1.Tensor{
			"x": raw(weftv1.DataType_DATA_TYPE_FP32, 4, rows, 4), "y": raw(weftv1.DataType_DATA_TYPE_FP64, 8, rows),
			"z": raw(weftv1.DataType_DATA_TYPE_INT32, 4, rows, 2),
		}
	default:
		q.Inputs = map[string]*weftv1.Tensor{
			"x": raw(weftv1.DataType_DATA_TYPE_UINT8, 1, rows, 3), "y": raw(weftv1.DataType_DATA_TYPE_FP16, 2, rows, 1),
		}
	}
	return q
}
