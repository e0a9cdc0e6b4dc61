package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/tensor"
)

// engine runs models in this process, without a server: the server is compared with it.
type engine struct{ options ort.Options }

func newEngine(library, device string) (engine, error) {
	// As the server counts GPUs: by their places on the bus.
	if _, set := os.LookupEnv(deviceOrder); !set {
		if err := os.Setenv(deviceOrder, "PCI_BUS_ID"); err != nil {
			return engine{}, err
		}
	}
	provider, number, _ := strings.Cut(device, ":")
	id, err := strconv.Atoi(number)
	if err != nil {
		id = 0 // the CPU has no number
	}
	return engine{ort.Options{Providers: []string{provider}, DeviceID: id, IntraOpThreads: 1}}, ort.Init(library)
}

const deviceOrder = "CUDA_DEVICE_ORDER"

// probe writes a small model to a folder and returns an error if the device does not run it.
func (e engine) probe(dir string) error {
	path := filepath.Join(dir, "model.onnx")
	if err := write(path, onnxgraph.MLP("probe", []int{4, 2}, 1, "Tanh", "")); err != nil {
		return err
	}
	_, err := e.loop(path, 1, 1, 0)
	return err
}

// pace is the speed of a model.
type pace struct {
	perSecond float64       // rows
	perRun    time.Duration // of one loop, on average
	least     time.Duration // of all runs
}

// loop runs a model again and again, at least three times, for a time, on batches of the given number of random rows,
// in several loops side by side.
func (e engine) loop(path string, rows, loops int, span time.Duration) (p pace, err error) {
	session, err := ort.Open(path, e.options)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	var (
		running sync.WaitGroup
		runs    atomic.Int64
		faults  = make([]error, loops)
		least   = make([]time.Duration, loops)
		ready   sync.WaitGroup
		start   time.Time
		begin   = make(chan struct{})
	)
	ready.Add(loops)
	for i := range loops {
		running.Go(func() {
			b := randomBatch(session.Signature(), rows)
			defer b.Free()
			// the first run pays for one-time setup
			faults[i] = errors.Join(session.Run(context.Background(), b), session.Run(context.Background(), b))
			ready.Done()
			<-begin
			for n := 0; faults[i] == nil && (n < 3 || time.Since(start) < span); n++ {
				began := time.Now()
				if faults[i] = session.Run(context.Background(), b); faults[i] == nil {
					runs.Add(1)
				}
				if took := time.Since(began); n == 0 || took < least[i] {
					least[i] = took
				}
			}
		})
	}
	ready.Wait()
	start = time.Now()
	close(begin)
	running.Wait()
	took := time.Since(start)
	if err := errors.Join(faults...); err != nil {
		return p, fmt.Errorf("%s: %w", path, err)
	}
	p.perSecond = float64(runs.Load()) * float64(rows) / took.Seconds()
	p.least = slices.Min(least)
	p.perRun = took * time.Duration(loops) / time.Duration(runs.Load())
	return p, nil
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
	raw := make([]byte, 0, 4*n)
	for range n {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(rng.NormFloat64())))
	}
	return raw
}

// write writes a file and the folders that it lies in.
func write(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}
