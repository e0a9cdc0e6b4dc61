package modelrepo

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/tensor"
)

// Warmup is a request that is run before a version is ready, after those with made-up inputs.
type Warmup struct {
	// Name (default: its place in the list) is the request's name in errors.
	Name string `yaml:"name,omitempty"`
	// BatchSize and Count (default 1) are the number of rows of the request, at least 1, and how many times it runs, 1 to
	// 1000. Many runs make loading slow.
	BatchSize int `yaml:"batch_size"`
	Count     int `yaml:"count"`
	// Inputs are the inputs of the model, by name.
	Inputs map[string]WarmupInput `yaml:"inputs"`
}

// WarmupInput is one input of a request.
type WarmupInput struct {
	// DType (default: the model's type) is the type of the elements.
	DType DType `yaml:"dtype,omitempty"`
	// Shape (required) is the shape of one row without the batch dimension, or the whole shape.
	Shape tensor.Shape `yaml:"shape,flow"`
	// Data (random or zero; default random) is what the elements are; random numbers are small.
	Data WarmupData `yaml:"data,omitempty" enum:"zero,random"`
	// File is a file in the model's directory warmup that holds the elements in place of Data: those of one row, which
	// repeat for all rows, or those of the whole shape.
	File string `yaml:"file,omitempty"`
}

// WarmupData is zero or random.
type WarmupData string

// The kinds of data.
const (
	ZeroData   WarmupData = "zero"
	RandomData WarmupData = "random"
)

// SetDefaults sets what a request has that says nothing.
func (w *Warmup) SetDefaults() { w.BatchSize, w.Count = 1, 1 }

const (
	maxWarmups     = 100
	maxWarmupCount = 1000
)

func (m *Manifest) checkWarmup(faults *config.Faults) {
	if n := len(m.Warmup); n > maxWarmups {
		faults.Addf("warmup", "%d requests; at most %d are supported, each takes time when the model is loaded", n,
			maxWarmups)
	}
	for i := range m.Warmup {
		w, key := &m.Warmup[i], fmt.Sprintf("warmup[%d]", i)
		config.Between(faults, key+".batch_size", w.BatchSize, 1, maxBatch)
		config.Between(faults, key+".count", w.Count, 1, maxWarmupCount)
		if len(w.Inputs) == 0 {
			faults.Addf(key+".inputs", "expected the model's inputs, such as {x: {shape: [48]}}")
		}
		for _, name := range sortedKeys(w.Inputs) {
			w.Inputs[name].check(faults, key+".inputs."+name, w.BatchSize)
		}
	}
}

func (in WarmupInput) check(faults *config.Faults, key string, rows int) {
	n, ok := in.Shape.Elements()
	switch {
	case in.Shape == nil:
		faults.Addf(key, "shape is missing; expected such as {shape: [48]}, or [] for one element a row")
	case !ok || !in.Shape.Known():
		faults.Addf(key+".shape", "%s; expected sizes that are known", in.Shape.Literal())
	case len(in.Shape) > maxRank:
		faults.Addf(key+".shape", "%d dimensions; at most %d are supported", len(in.Shape), maxRank)
	case n > maxElements/int64(max(rows, 1)):
		faults.Addf(key+".shape", "more than %d elements in all rows; expected fewer", maxElements)
	}
	if in.File != "" && !filepath.IsLocal(in.File) {
		faults.Addf(key+".file", "expected the name of a file below the directory %s of the model, found %q", warmupDir,
			in.File)
	}
}

// WarmupFile reads a file that a warm-up request of a version names, and one byte more than it may have. The error says
// which file is wrong, and what to do.
func (v Version) WarmupFile(name string, most int64) ([]byte, error) {
	name = filepath.Join(warmupDir, name)
	data, err := v.readFile(name, most)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist; put the input there, or have it made up",
			filepath.Join(filepath.Dir(v.Dir), name))
	}
	return data, err
}

// readFile reads a file below the directory of the version's model, and one byte more than it may have. The error says
// which file is wrong; that of a file which does not exist is fs.ErrNotExist.
func (v Version) readFile(name string, most int64) ([]byte, error) {
	full := filepath.Join(filepath.Dir(v.Dir), name)
	root, err := os.OpenRoot(v.Repository())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", full, err)
	}
	defer root.Close()
	f, err := openAtOnce(root, filepath.Join(filepath.Base(filepath.Dir(v.Dir)), name))
	if err != nil {
		return nil, unreadable(full, err)
	}
	defer f.Close() // it was only read
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file; put one in its place", full)
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, unreadable(full, err)
	}
	return data, nil
}

// warmups maps the requests that Triton warms models up with.
func (t *tritonConfig) warmups() {
	for i, w := range t.c.GetModelWarmup() {
		path := fmt.Sprintf("model_warmup[%d]", i)
		to := Warmup{
			Name: w.GetName(), BatchSize: max(1, int(w.GetBatchSize())), Count: max(1, int(w.GetCount())),
			Inputs: map[string]WarmupInput{},
		}
		for name, in := range w.GetInputs() {
			input := WarmupInput{Shape: append(tensor.Shape{}, in.GetDims()...), File: in.GetInputDataFile()}
			switch {
			case input.File != "":
			case in.GetRandomData():
				input.Data = RandomData
			default:
				input.Data = ZeroData
			}
			dtype, ok := tritonTypes[in.GetDataType()]
			if !ok && in.GetDataType() != inference.DataType_TYPE_INVALID {
				t.fault(path+".inputs["+name+"].data_type", "%v is no type of elements; expected such as TYPE_FP32",
					in.GetDataType())
			}
			input.DType = DType(dtype)
			to.Inputs[name] = input
		}
		t.m.Warmup = append(t.m.Warmup, to)
		t.sets(fmt.Sprintf("warmup[%d]", i), path)
		t.set["warmup"] = "model_warmup"
	}
}
