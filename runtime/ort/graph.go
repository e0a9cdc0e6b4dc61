package ort

/*
#include <stdlib.h>
#include "graph.h"
*/
import "C"

import (
	"hash/maphash"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/runtime/tensor/compare"
)

// graph is the state of one shape of a session's inputs.
type graph struct {
	state   graphState
	inputs  []tensor.Shape  // for the log
	outputs []tensor.Tensor // types, shapes and sizes, without the data
	sizes   []int           // bytes of each output
	sum     uint64          // of the inputs at the capture
	c       *C.weft_graph   // while there is a graph
	memory  int64           // bytes that it has on the device
	told    bool            // that there is no memory for it; once is enough
	after   time.Time       // when it may be captured; not before
}

type graphState uint8

const (
	unseen   graphState = iota
	seen                // it ran, so that the next run finds memory and algorithms
	unproven            // captured
	proven              // it gave the right answers to inputs that it was not captured with
	refused
)

// learn notes the outputs of a finished run and the inputs that they are of.
func (e *graph) learn(b *tensor.Batch) {
	e.inputs, e.outputs, e.sizes = nil, nil, nil
	for _, in := range b.Inputs {
		e.inputs = append(e.inputs, slices.Clone(in.Shape))
	}
	for _, out := range b.Outputs {
		e.outputs = append(e.outputs, tensor.Tensor{DType: out.DType, Shape: slices.Clone(out.Shape)})
		e.sizes = append(e.sizes, len(out.Data))
	}
	e.sum = checksum(b.Inputs)
}

// declare declares the outputs by the Output of a batch.
func (e *graph) declare(output func(i int, d tensor.DType, s tensor.Shape, size int) []byte) {
	for i, out := range e.outputs {
		output(i, out.DType, out.Shape, e.sizes[i])
	}
}

var seed = maphash.MakeSeed()

func checksum(inputs []tensor.Tensor) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, in := range inputs {
		_, _ = h.Write(in.Data) // never fails
	}
	return h.Sum64()
}

// tolerances is how far an answer with a graph may lie from one without, relative to the largest magnitude: CUDA's
// libraries may choose other kernels while they are captured. Types that are not listed must be equal.
var tolerances = map[tensor.DType]float64{
	tensor.Float64: 1e-5, tensor.Float32: 1e-3, tensor.Float16: 1e-2,
	tensor.BFloat16: 3e-2,
}

// agree compares an answer that came with a graph to one that came without.
func agree(got, want tensor.Tensor) bool {
	far, err := compare.Relative(got, want, nil, 0)
	return err == nil && far <= tolerances[want.DType]
}
