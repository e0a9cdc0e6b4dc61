package app

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// describeVersion says where a version is, which inputs and outputs it has, and how it is served.
func describeVersion(v *catalog.Version) string {
	w := &strings.Builder{}
	fmt.Fprintf(w, "on %s by %s\n", v.Device, v.Provider)
	for _, in := range v.Signature.Inputs {
		fmt.Fprintf(w, "input   %s\n", describeTensor(&in))
	}
	for _, out := range v.Signature.Outputs {
		fmt.Fprintf(w, "output  %s\n", describeTensor(&out))
	}
	served := "request by request"
	if v.Batching.Batched {
		served = fmt.Sprintf("in batches of up to %d rows", v.Batching.MaxBatchSize)
	}
	fmt.Fprintf(w, "served  %s: %s\n", served, v.Batching.Reason)
	if v.Batching.Proof != "" {
		fmt.Fprintf(w, "proof   %s\n", v.Batching.Proof)
	}
	if open := openLengths(v.Signature); v.Batching.Batched && open != "" {
		fmt.Fprintf(w, "open    %s: only requests of equal size there share an execution; batching.variable_dims "+
			"makes them so\n", open)
	}
	if v.Batching.Obstacle != "" {
		fmt.Fprintf(w, "note    not proven by structure: %s\n", v.Batching.Obstacle)
	}
	for _, note := range v.Signature.Notes {
		fmt.Fprintf(w, "note    %s\n", note)
	}
	for i, other := range v.Replicas {
		if i > 0 {
			fmt.Fprintf(w, "also    on %s by %s\n", other.Device, other.Provider)
		}
	}
	if v.Scarce != "" {
		fmt.Fprintf(w, "note    %s\n", v.Scarce)
	}
	return w.String()
}

// openLengths names the dimensions of inputs whose size is the request's own, but for the batch and those that are
// padded; "" for none.
func openLengths(s *tensor.Signature) string {
	var all []string
	for i := range s.Inputs {
		in := &s.Inputs[i]
		for d, size := range in.Shape {
			if size == tensor.Unknown && d != in.BatchDim && (in.Variable == nil || in.Variable.Dim != d) {
				all = append(all, fmt.Sprintf("%s dimension %d", in.Name, d))
			}
		}
	}
	return strings.Join(all, ", ")
}

// printCosts prints the device time of executions that warm-up measured, after which version it is of; of a model with
// open dimensions there are as many lines as shapes were tried.
func printCosts(w io.Writer, which string, signature *tensor.Signature, shapes []sharedsched.CostState) {
	for _, shape := range shapes {
		var sizes []string
		for _, e := range shape.Entries {
			if e.Trusted {
				sizes = append(sizes, fmt.Sprintf("%d: %v", e.Rows, e.Median.Round(time.Microsecond)))
			}
		}
		if len(sizes) > 0 {
			fmt.Fprintf(w, "cost    %sby rows%s: %s\n", which, describeSizes(signature, shape.ShapeKey),
				strings.Join(sizes, ", "))
		}
	}
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
	if len(sizes) == 0 {
		return ""
	}
	return ", for " + strings.Join(sizes, " and ")
}

func describeTensor(s *tensor.Spec) string {
	text := fmt.Sprintf("%s %v %v", s.Name, s.DType, s.Shape)
	if s.BatchDim != tensor.NoBatch {
		text += fmt.Sprintf(", rows in dimension %d", s.BatchDim)
	}
	return text
}

// faultOf returns why a version is not ready.
func faultOf(v *catalog.Version) error {
	if v.Fault == nil {
		return errors.New(v.Cause)
	}
	return v.Fault
}
