package app

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// describeVersion says where a version is, which inputs and outputs it has, and how it is served. The version is ready,
// so that it has a signature. Costs are added by the caller, who knows the scheduler's state.
func describeVersion(v *catalog.Version) VersionFindings {
	f := VersionFindings{
		Version: v.Number, Device: v.Device, Provider: v.Provider,
		Inputs: describeTensors(v.Signature.Inputs), Outputs: describeTensors(v.Signature.Outputs),
		Batched: v.Batching.Batched, Reason: v.Batching.Reason, Proof: string(v.Batching.Proof),
		Unproven: v.Batching.Obstacle, State: describeState(v), Notes: slices.Clone(v.Signature.Notes),
	}
	if f.Batched {
		f.MaxBatchSize, f.OpenLengths = v.Batching.MaxBatchSize, openLengths(v.Signature)
	}
	for _, step := range v.Steps {
		f.Steps = append(f.Steps, step.String())
	}
	if len(v.Steps) > 0 && v.Steps[0].Separate {
		f.Notes = append(f.Notes, "the steps run by themselves: each is a request to the version that it names, in batches "+
			"with other requests to that")
	}
	for i, other := range v.Replicas {
		// The first replica is the one that Device and Provider tell of.
		if i > 0 {
			f.Also = append(f.Also, fmt.Sprintf("on %s by %s", other.Device, other.Provider))
		}
	}
	if v.Scarce != "" {
		f.Notes = append(f.Notes, v.Scarce)
	}
	if v.EpisodeState != nil && v.EpisodeState.Doubt != "" {
		f.Notes = append(f.Notes, v.EpisodeState.Doubt)
	}
	return f
}

// controlTexts say what the server sets inputs to that tell the model about a request.
var controlTexts = [...]string{
	catalog.StartControl: " is 1 at the start", catalog.EndControl: " is 1 at the end", catalog.ReadyControl: " is 1",
	catalog.IDControl: " is the number of the episode",
}

// describeState says what the server keeps between the requests of an episode; nil: nothing.
func describeState(v *catalog.Version) *StateFindings {
	s, sig := v.EpisodeState, v.Signature
	if s == nil {
		return nil
	}
	f := &StateFindings{Found: s.Found, MaxEpisodes: s.MaxEpisodes, Idle: config.Duration(s.Idle).String()}
	for _, c := range s.Controls {
		f.Controls = append(f.Controls, sig.Inputs[c.Input].Name+controlTexts[c.Kind])
	}
	for _, kept := range s.Inputs {
		in := &sig.Inputs[kept.Input]
		of, at := sig.Outputs, kept.Output
		if at < 0 {
			of, at = sig.Inputs, kept.Of
		}
		name := of[at].Name
		if s.Window(kept.Input) != nil {
			name = "itself (requests bring " + kept.Wants(in) + ")"
		}
		f.Inputs = append(f.Inputs, StateInputFindings{in.Name, name, kept.Window})
		if in.BatchDim == tensor.NoBatch {
			f.Bytes += len(kept.Initial.Data)
		} else {
			f.RowBytes += len(kept.Initial.Data)
		}
		for d, size := range in.Shape {
			if size == tensor.Unknown && d != in.BatchDim && !slices.Contains(f.Growing, in.Name) {
				f.Growing = append(f.Growing, in.Name)
			}
		}
	}
	return f
}

// openLengths names the dimensions of inputs in which requests must have equal sizes to share an execution. The
// dimension of rows is none of them, and neither are dimensions that the server pads.
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

// describeCosts returns the device time of executions that warm-up measured, one entry for each combination of sizes of
// open dimensions that was tried. Estimates that nothing was measured for are left out.
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

// describeSizes writes a key of tensor.Signature.ShapeKey for people, as in "ids [-1 128]"; "" if no dimension but that
// of rows is open. The key has eight bytes for each such dimension, in the order of the inputs.
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

// describeTensors returns an empty list for no tensors, and not nil: the JSON form then has [] instead of null.
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

// faultOf returns why a version is not ready. Fault is nil where only the words of the cause are known.
func faultOf(v *catalog.Version) error {
	if v.Fault == nil {
		return errors.New(v.Cause)
	}
	return v.Fault
}
