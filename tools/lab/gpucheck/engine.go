package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/tools/lab/harness"
)

// engine runs models in this process, without a server: the server is compared with it.
type engine struct{ options ort.Options }

func newEngine(library, device string) (engine, error) {
	// As the server counts GPUs: by their places on the bus.
	if _, set := os.LookupEnv(deviceOrder); !set {
		_ = os.Setenv(deviceOrder, "PCI_BUS_ID") // fails only for names that cannot be
	}
	provider, number, _ := strings.Cut(device, ":")
	id, _ := strconv.Atoi(number) // the CPU has none
	return engine{ort.Options{Providers: []string{provider}, DeviceID: id, IntraOpThreads: 1}}, ort.Init(library)
}

const deviceOrder = "CUDA_DEVICE_ORDER"

// probe writes a small model to a folder and returns an error if the device does not run it.
func (e engine) probe(dir string) error {
	path := filepath.Join(dir, "model.onnx")
	if err := harness.Write(path, onnxgraph.MLP("probe", []int{4, 2}, 1, "Tanh", "")); err != nil {
		return err
	}
	_, err := e.loop(path, 1, 0)
	return err
}

// pace is the speed of a model.
type pace struct {
	perSecond float64       // rows
	perRun    time.Duration // on average
	least     time.Duration // of all runs
}

// loop runs a model again and again, at least three times, for a time, on batches of the given number of random rows.
func (e engine) loop(path string, rows int, span time.Duration) (p pace, err error) {
	session, err := ort.Open(path, e.options)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	b := randomBatch(session.Signature(), rows)
	defer b.Free()
	var runs []time.Duration
	start := time.Now()
	for len(runs) < 5 || time.Since(start) < span {
		if len(runs) == 2 {
			start = time.Now() // the first run pays for one-time setup
		}
		began := time.Now()
		if err := session.Run(context.Background(), b); err != nil {
			return p, fmt.Errorf("%s: %w", path, err)
		}
		runs = append(runs, time.Since(began))
	}
	perRun := time.Since(start) / time.Duration(len(runs)-2)
	return pace{float64(rows) / perRun.Seconds(), perRun, slices.Min(runs[2:])}, nil
}

// randomBatch makes up a batch for a model whose inputs are fp32 with the rows in dimension 0.
func randomBatch(s *tensor.Signature, rows int) *tensor.Batch {
	b := tensor.NewBatch(len(s.Inputs), len(s.Outputs), nil)
	for i, in := range s.Inputs {
		shape := in.Shape.With(0, int64(rows))
		n, _ := shape.Elements()
		copy(b.Input(i, in.DType, shape, int(n)*in.DType.Size()), randomFloats(int(n)))
	}
	return b
}

// randomFloats returns n fp32 numbers. Zeros would be easier on a GPU than real inputs: it runs faster on them.
func randomFloats(n int) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	numbers := make([]float32, n)
	for i := range numbers {
		numbers[i] = float32(rng.NormFloat64())
	}
	return onnxgraph.FloatBytes(numbers)
}
