package app

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// describeVersion says where a version is, which inputs and outputs it has, and how it is served.
func describeVersion(v *catalog.Version) VersionFindings {
	f := VersionFindings{
		Version: v.Number, Device: v.Device, Provider: v.Provider,
		Inputs: describeTensors(v.Signature.Inputs), Outputs: describeTensors(v.Signature.Outputs),
		Batched: v.Batching.Batched, Reason: v.Batching.Reason, Proof: string(v.Batching.Proof),
		Unproven: v.Batching.Obstacle, Notes: slices.Clone(v.Signature.Notes),
	}
	if f.Batched {
		f.MaxBatchSize, f.OpenLengths = v.Batching.MaxBatchSize, openLengths(v.Signature)
	}
	for i, other := range v.Replicas {
		if i > 0 {
			f.Also = append(f.Also, fmt.Sprintf("on %s by %s", other.Device, other.Provider))
		}
	}
	if v.Scarce != "" {
		f.Notes = append(f.Notes, v.Scarce)
	}
	return f
}

// openLengths names the dimensions of inputs whose size is the request's own, but for the batch and the ones that are
// padded.
func openLengths(s *tensor.Signature) (all []string) {
	for i := range s.Inputs {
		in := &s.Inputs[i]
		for d, size := range in.Shape {
			if size == tensor.Unknown && d != in.BatchDim && (in.Variable == nil || in.Variable.Dim != d) {
				all = append(all, fmt.Sprintf("%s dimension %d", in.Name, d))
			}
		}
	}
	return all
}

// describeCosts returns the device time of executions that warm-up measured; of a model with open dimensions there is
// one for each shape that was tried.
func describeCosts(signature *tensor.Signature, shapes []sharedsched.CostState) (all []CostFindings) {
	for _, shape := range shapes {
		f := CostFindings{Sizes: describeSizes(signature, shape.ShapeKey)}
		for _, e := range shape.Entries {
			if e.Trusted {
				f.Executions = append(f.Executions, ExecutionFindings{e.Rows, float64(e.Median) / float64(time.Microsecond)})
			}
		}
		if len(f.Executions) > 0 {
			all = append(all, f)
		}
	}
	return all
}

// describeSizes returns the sizes of open dimensions other than the batch that a cost is of, which
// tensor.Signature.ShapeKey lists; "" if there is no such dimension.
func describeSizes(s *tensor.Signature, key string) string {
	var sizes []string
	for _, in := range s.Inputs {
		shape, open := slices.Clone(in.Shape), false
		for d, size := range shape {
			if size == tensor.Unknown && d != in.BatchDim && len(key) >= 8 {
				shape[d], key, open = int64(binary.LittleEndian.Uint64([]byte(key))), key[8:], true
			}
		}
		if open {
			sizes = append(sizes, fmt.Sprintf("%s %v", in.Name, shape))
		}
	}
	return strings.Join(sizes, " and ")
}

func describeTensors(specs []tensor.Spec) []TensorFindings {
	all := make([]TensorFindings, len(specs))
	for i := range specs {
		s := &specs[i]
		all[i] = TensorFindings{Name: s.Name, DType: s.DType.String(), Shape: s.Shape}
		if s.BatchDim != tensor.NoBatch {
			all[i].BatchDim = &s.BatchDim
		}
		if s.Shown != nil {
			all[i].Shown = s.Shown.Shape
		}
	}
	return all
}

// faultOf returns why a version is not ready.
func faultOf(v *catalog.Version) error {
	if v.Fault == nil {
		return errors.New(v.Cause)
	}
	return v.Fault
}
