package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/tools/lab/affinity"
	"github.com/weftserve/weft/tools/lab/harness"
)

// batchSizes are those at which the engine is measured.
var batchSizes = []int{1, 2, 4, 8, 16, 32, 64, 128, 256}

// pace is the speed of the engine at a batch size.
type pace struct {
	Batch   int     `json:"batch"`
	RowsPS  float64 `json:"rows_per_s"`
	CPUUs   float64 `json:"cpu_us"`   // processor time of a row
	BatchUs float64 `json:"batch_us"` // from the begin of a batch to its end
	// MemoryMB is what the session keeps when it has run batches of this size and all smaller ones.
	MemoryMB float64 `json:"memory_mb"`
}

// engineCommand runs a model without a server: one batch after another on each of its processors.
type engineCommand struct {
	Path string        `arg:""`
	Span time.Duration `arg:""`
}

// Run measures each batch size for a time.
func (c *engineCommand) Run(o harness.Output) error {
	library, err := ortlib.Find()
	if err != nil {
		return err
	}
	if err := ort.Init(library); err != nil {
		return err
	}
	before := ownMemory()
	session, err := ort.Open(c.Path, ort.Options{IntraOpThreads: 1})
	if err != nil {
		return err
	}
	var paces []pace
	for _, rows := range batchSizes {
		p, err := measureEngine(session, rows, c.Span, before)
		if err != nil {
			return errors.Join(err, session.Close())
		}
		paces = append(paces, p)
	}
	return errors.Join(json.NewEncoder(o.Out).Encode(paces), session.Close())
}

func measureEngine(session *ort.Session, rows int, span time.Duration, before float64) (pace, error) {
	first := filled(session, rows)
	err := repeat(session, first, 0, new(atomic.Int64)) // it pays for one-time set-up
	first.Free()
	if err != nil {
		return pace{}, err
	}
	memory := ownMemory() - before
	lanes := runtime.GOMAXPROCS(0)
	failed := make([]error, lanes)
	var batches atomic.Int64
	var ready, running sync.WaitGroup
	ready.Add(lanes)
	var began time.Time
	var used time.Duration
	start := sync.OnceFunc(func() { began, used = time.Now(), processorTime() })
	for i := range lanes {
		running.Go(func() {
			b := filled(session, rows)
			defer b.Free()
			ready.Done()
			ready.Wait()
			start()
			failed[i] = repeat(session, b, span, &batches)
		})
	}
	running.Wait()
	took, n := time.Since(began), float64(batches.Load())
	return pace{
		Batch: rows, RowsPS: n * float64(rows) / took.Seconds(),
		CPUUs:   (processorTime() - used).Seconds() * 1e6 / n / float64(rows),
		BatchUs: took.Seconds() * 1e6 * float64(lanes) / n, MemoryMB: memory,
	}, errors.Join(failed...)
}

// filled returns a batch of random rows.
func filled(session *ort.Session, rows int) *tensor.Batch {
	s := session.Signature()
	b := tensor.NewBatch(len(s.Inputs), len(s.Outputs), nil)
	for i, in := range s.Inputs {
		shape := in.Shape.With(0, int64(rows))
		n, _ := shape.Elements()
		numbers := make([]float32, n)
		for i := range numbers {
			numbers[i] = float32(rand.NormFloat64())
		}
		copy(b.Input(i, in.DType, shape, int(n)*in.DType.Size()), onnxgraph.FloatBytes(numbers))
	}
	return b
}

// repeat runs a batch for a time, and counts how often; once at least.
func repeat(session *ort.Session, b *tensor.Batch, span time.Duration, batches *atomic.Int64) error {
	for end := time.Now().Add(span); ; {
		if err := session.Run(context.Background(), b); err != nil {
			return err
		}
		batches.Add(1)
		if !time.Now().Before(end) {
			return nil
		}
	}
}

// ownMemory returns the megabytes that this process holds beyond garbage.
func ownMemory() float64 {
	debug.FreeOSMemory()
	self, _ := procfs.Self() // 0 where there is no /proc
	return memoryOf([]procfs.Proc{self})
}

// processorTime is what this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it has no way to fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// engine measures a model without a server on some processors.
func engine(ctx context.Context, cpus []int, path string, span time.Duration) ([]pace, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var text []byte
	err = affinity.Start(cpus, affinity.Foremost, func() (err error) {
		text, err = exec.CommandContext(ctx, self, "engine", path, span.String()).Output()
		return err
	})
	if failed, is := errors.AsType[*exec.ExitError](err); is {
		return nil, fmt.Errorf("ONNX Runtime alone: %w: %s", err, failed.Stderr)
	}
	var paces []pace
	if err == nil {
		err = json.Unmarshal(text, &paces)
	}
	return paces, err
}

// best returns the most rows a second, and the least processor time of a row, of all batch sizes.
func best(paces []pace) (rowsPS, cpuUs float64) {
	rowsPS, cpuUs = paces[0].RowsPS, paces[0].CPUUs
	for _, p := range paces {
		rowsPS, cpuUs = max(rowsPS, p.RowsPS), min(cpuUs, p.CPUUs)
	}
	return rowsPS, cpuUs
}

func batchFigure(rows int, figure string) string { return "batch " + strconv.Itoa(rows) + " " + figure }
