// Package synth is an engine with a latency curve instead of a model: it shows how the house behaves under load without
// a network or an accelerator, in tests, demonstrations and load tests.
//
// An execution of n rows occupies its device for Base + n·PerRow. The answer to a row depends on the model's seed and
// on that row's own inputs alone, so that a test can tell whose answer it got; Answer computes it without a device.
package synth

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
)

// Options describe a synthetic model. The zero value answers at once.
type Options struct {
	// Base and PerRow are the duration of a run: Base + PerRow for each row.
	Base, PerRow time.Duration
	// Jitter varies each duration by a factor between 1-Jitter and 1+Jitter. 0 to 1.
	Jitter float64
	// Seed distinguishes models: equal seeds give equal answers and equal sequences of jitter.
	Seed uint64
	// FailOnNaN fails a run in which any floating point input has a NaN.
	FailOnNaN bool
	// FailEvery fails every FailEvery-th run. 0: none.
	FailEvery int
	// Inputs and Outputs are the signature. The first Unknown dimension of an input counts its rows; an output has at
	// most one, which takes as many. None: an input "x" and an output "y", both fp32 of [Unknown, 4].
	Inputs, Outputs []tensor.Spec
	// Device is the device that runs occupy; nil: one of the model's own.
	Device *Device
}

// Session is a synthetic model. It is safe for concurrent use.
type Session struct {
	o         Options
	signature *tensor.Signature
	runs      atomic.Int64
	jitter    *rand.Rand // for the holder of the device

	stop     chan struct{} // closed by Close
	stopOnce sync.Once
	running  sync.RWMutex // held for reading by each run
}

// Open returns a model. The error says which option cannot be.
func Open(o Options) (*Session, error) {
	if len(o.Inputs) == 0 {
		o.Inputs = []tensor.Spec{{Name: "x", DType: tensor.Float32, Shape: tensor.Shape{tensor.Unknown, 4}}}
	}
	if len(o.Outputs) == 0 {
		o.Outputs = []tensor.Spec{{Name: "y", DType: tensor.Float32, Shape: tensor.Shape{tensor.Unknown, 4}}}
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Device == nil {
		o.Device = NewDevice()
	}
	s := &Session{
		o:         o,
		signature: (&tensor.Signature{Inputs: o.Inputs, Outputs: o.Outputs}).Clone(),
		stop:      make(chan struct{}),
		jitter:    rand.New(rand.NewPCG(o.Seed, 0)),
	}
	for _, specs := range [][]tensor.Spec{s.signature.Inputs, s.signature.Outputs} {
		for i := range specs {
			specs[i].BatchDim = tensor.NoBatch
		}
	}
	return s, nil
}

func (o *Options) check() error {
	switch {
	case o.Base < 0 || o.PerRow < 0:
		return fmt.Errorf("synthetic model: base %v and per_row %v must not be negative", o.Base, o.PerRow)
	case !(o.Jitter >= 0 && o.Jitter <= 1):
		return fmt.Errorf("synthetic model: jitter is %v, expected 0 to 1", o.Jitter)
	case o.FailEvery < 0:
		return fmt.Errorf("synthetic model: fail_every is %d, expected 0 (never) or a count of runs", o.FailEvery)
	}
	for _, spec := range o.Inputs {
		if err := checkSpec("input", spec); err != nil {
			return err
		}
	}
	for _, spec := range o.Outputs {
		if err := checkSpec("output", spec); err != nil {
			return err
		}
		row := spec.Shape
		if d := rowDim(row); d >= 0 {
			row = row.With(d, 1)
		}
		if _, ok := row.Elements(); !ok {
			return fmt.Errorf("synthetic model: output %q: shape %v has more than one open dimension, or too many "+
				"elements", spec.Name, spec.Shape)
		}
	}
	return nil
}

func checkSpec(side string, spec tensor.Spec) error {
	if spec.DType.Size() == 0 && spec.DType != tensor.String {
		return fmt.Errorf("synthetic model: %s %q has no element type", side, spec.Name)
	}
	for _, size := range spec.Shape {
		if size < tensor.Unknown {
			return fmt.Errorf("synthetic model: %s %q: a dimension is %d, expected a size, or %d where it is open",
				side, spec.Name, size, tensor.Unknown)
		}
	}
	return nil
}

// Signature returns the model's inputs and outputs. No dimension is marked as the batch: that is for the caller to
// decide.
func (s *Session) Signature() *tensor.Signature { return s.signature }

// Provider returns the execution provider: synth.
func (s *Session) Provider() string { return "synth" }

// Notes returns nothing: there is nothing to fall back to.
func (s *Session) Notes() []string { return nil }

// Run occupies the device for as long as the rows take, then declares and fills the outputs. A run that is to fail
// takes its time too; the end of ctx ends one at once.
func (s *Session) Run(ctx context.Context, b *tensor.Batch) (err error) {
	s.running.RLock()
	defer s.running.RUnlock()
	ctx, judge := engine.WithPatience(ctx, b)
	defer judge(&err)
	rows, err := s.rows(b.Inputs)
	if err != nil {
		return err
	}
	number := s.runs.Add(1)
	if err := s.o.Device.occupy(ctx, s.stop, func() time.Duration { return s.duration(rows) }); err != nil {
		return err
	}
	if every := int64(s.o.FailEvery); every > 0 && number%every == 0 {
		return fmt.Errorf("synthetic model: run %d fails, as does every %d", number, every)
	}
	if s.o.FailOnNaN {
		for i, in := range b.Inputs {
			if at := findNaN(in); at >= 0 {
				return fmt.Errorf("synthetic model: input %q: element %d is not a number", s.signature.Inputs[i].Name,
					at)
			}
		}
	}
	s.answer(b.Inputs, rows, b.Output)
	return nil
}

func (s *Session) duration(rows int64) time.Duration {
	d := float64(s.o.Base) + float64(s.o.PerRow)*float64(rows)
	if s.o.Jitter > 0 {
		d *= 1 + s.o.Jitter*(2*s.jitter.Float64()-1)
	}
	return time.Duration(d)
}

// rows checks inputs and returns how many rows they bring: 1 where no input has an open dimension.
func (s *Session) rows(inputs []tensor.Tensor) (int64, error) {
	if len(inputs) != len(s.signature.Inputs) {
		return 0, fmt.Errorf("synthetic model: %d inputs, expected %d", len(inputs), len(s.signature.Inputs))
	}
	rows := int64(-1)
	for i, spec := range s.signature.Inputs {
		in := inputs[i]
		if in.DType != spec.DType || !spec.Shape.Accepts(in.Shape) {
			return 0, fmt.Errorf("synthetic model: input %q: expected %v %v, got %v %v", spec.Name, spec.DType,
				spec.Shape, in.DType, in.Shape)
		}
		if err := in.Check(); err != nil {
			return 0, fmt.Errorf("synthetic model: input %q: %w", spec.Name, err)
		}
		d := rowDim(spec.Shape)
		if d < 0 {
			continue
		}
		if rows >= 0 && in.Shape[d] != rows {
			return 0, fmt.Errorf("synthetic model: input %q has %d rows, another has %d", spec.Name, in.Shape[d], rows)
		}
		rows = in.Shape[d]
	}
	if rows < 0 {
		rows = 1
	}
	return rows, nil
}

// Stats is empty: a synthetic model has neither graphs nor memory of a device.
func (s *Session) Stats() engine.Stats { return engine.Stats{} }

// Close stops runs, which fail with engine.ErrClosed, and waits for them. Closing again does nothing.
func (s *Session) Close() error {
	s.stopOnce.Do(func() { close(s.stop) })
	s.running.Lock()
	defer s.running.Unlock()
	return nil
}
