package tensor

import (
	"slices"
	"time"
)

// Batch is the memory of one execution: complete input tensors that the host assembled and room for the outputs that
// the engine fills. It lives in slabs outside the Go heap, is reused from run to run, and belongs to one run at a time:
// to the engine from the start of Run to its return, to the host otherwise.
type Batch struct {
	// Inputs and Outputs are in the signature's order. Inputs are as many as Feed said, and the ones that the model has a
	// default for may be Invalid. Output i is valid once the engine called Output(i, ...) in this run.
	Inputs, Outputs []Tensor
	// DeviceTime is how long the run used its device, set by an engine that knows; else as the caller left it.
	DeviceTime time.Duration
	// Process is that of the system which the run was in, set by an engine with processes of its own; 0: this one.
	Process int
	// Patience is how long the run may take once it has begun; 0: any time.
	Patience time.Duration
	// Turn is how long a run in quarantine may keep others waiting for theirs; 0: until it has ended.
	Turn time.Duration
	// Waited is how long the run waited for its turn in quarantine, and for its process, and what that did not have of
	// the time of the run.
	Waited time.Duration
	// Most is how many bytes the outputs may take together; 0: any number. Output keeps to it.
	Most int
	// Copied has the engine compute the outputs in memory of its own and copy them, also where it could write in place:
	// an answer that was written in place is compared with one that was not.
	Copied bool

	in, out []Slab
}

// NewBatch returns an empty batch for a model with so many inputs, at most, and outputs. memory gives the memory that
// it lies in; nil: SystemMemory.
func NewBatch(inputs, outputs int, memory Allocator) *Batch {
	b := &Batch{
		Inputs: make([]Tensor, inputs), Outputs: make([]Tensor, outputs),
		in: make([]Slab, inputs), out: make([]Slab, outputs),
	}
	for _, slabs := range [][]Slab{b.in, b.out} {
		for i := range slabs {
			slabs[i].memory = memory
		}
	}
	return b
}

// Feed makes the batch have the first of the inputs that there may be, without a value each.
func (b *Batch) Feed(inputs int) {
	b.Inputs = b.Inputs[:inputs]
	for i := range b.Inputs {
		in := &b.Inputs[i]
		in.DType, in.Shape, in.Data = Invalid, in.Shape[:0], nil
	}
}

// Input declares input i and returns its memory, size bytes that the caller fills. For every type but String size is
// the product of shape and element size. Shape is copied.
func (b *Batch) Input(i int, dtype DType, shape Shape, size int) []byte {
	return place(&b.Inputs[i], &b.in[i], dtype, shape, size)
}

// Output declares output i and returns its memory, size bytes that the engine fills. An engine that knows the shape
// before the run has the model write there directly; one that learns it from the run copies into it. Shape is copied.
// It panics with a *TooLargeError, and makes no room, if the outputs of this run then exceed Most; the caller of Run
// makes that the error of the run. Before a run the DType of every output is Invalid.
func (b *Batch) Output(i int, dtype DType, shape Shape, size int) []byte {
	b.measure(i, size)
	return place(&b.Outputs[i], &b.out[i], dtype, shape, size)
}

// Room returns all the memory that output i has now. Output gives the beginning of it as long as that suffices.
func (b *Batch) Room(i int) []byte { return b.out[i].mem }

// Lend makes output i lie in memory of another owner, who is asked for more when that does not suffice.
func (b *Batch) Lend(i int, memory []byte, more Allocator) {
	b.out[i] = Slab{mem: memory, memory: more}
}

func place(t *Tensor, s *Slab, dtype DType, shape Shape, size int) []byte {
	t.DType = dtype
	t.Shape = append(t.Shape[:0], shape...)
	t.Data = s.Bytes(size)
	return t.Data
}

// Free gives the memory back. Neither Inputs nor Outputs may be read afterwards.
func (b *Batch) Free() {
	for _, slabs := range [][]Slab{b.in, b.out} {
		for i := range slabs {
			slabs[i].Free()
		}
	}
	clear(b.Inputs[:cap(b.Inputs)])
	clear(b.Outputs)
}

// Cap returns the bytes that the batch holds on to.
func (b *Batch) Cap() int {
	n := 0
	for _, s := range slices.Concat(b.in, b.out) {
		n += s.Cap()
	}
	return n
}
