package modelrepo

import (
	"fmt"
	"slices"

	"github.com/weftserve/weft/internal/config"
)

// VariableDim pads one dimension of an input to one of a few lengths, with elements of one value behind those of the
// request.
type VariableDim struct {
	// Axis is the dimension that is padded, counted from 0. It is not the batch dimension, and its size must be open in
	// the model.
	Axis int `yaml:"axis"`
	// Buckets (required) are the lengths that are executed, ascending. A request gets the smallest length that is not
	// below its own; a request longer than the last is refused. Few lengths waste time on padding. Many make batches
	// small and loading slow.
	Buckets []int `yaml:"buckets,flow"`
	// PadValue is the added value, of the input's type. The default is 0, false or the empty string.
	PadValue config.Scalar `yaml:"pad_value,omitempty"`
}

const (
	// maxBuckets bounds the lengths of a dimension: each is proven and warmed up in every batch size, and waits in a
	// queue of its own.
	maxBuckets = 32
	maxLength  = 1 << 20
)

// checkVariableDims judges the lengths of inputs.
func (m *Manifest) checkVariableDims(faults *config.Faults) {
	b := &m.Batching
	for _, name := range sortedKeys(b.VariableDims) {
		key, v := "batching.variable_dims."+name, b.VariableDims[name]
		config.Between(faults, key+".axis", v.Axis, 0, maxRank-1)
		if slices.Contains(b.Unbatched, name) {
			faults.Addf(key, "%q has no batch dimension by batching.unbatched, and only inputs with one are brought "+
				"to common lengths; name it in one place only", name)
		}
		if dim, stated := b.BatchDim.Inputs[name]; stated && dim == v.Axis {
			faults.Addf(key+".axis", "%d is the batch dimension of %q by batching.batch_dim.inputs; expected another",
				v.Axis, name)
		}
		v.checkBuckets(faults, key+".buckets")
		if m.Synth != nil {
			m.Synth.checkTensor(faults, key, "inputs", name, v.Axis)
		}
	}
}

func (v *VariableDim) checkBuckets(faults *config.Faults, key string) {
	switch n := len(v.Buckets); {
	case n == 0:
		faults.Addf(key, "expected the lengths to execute, ascending, such as [32, 64, 128]")
	case n > maxBuckets:
		faults.Addf(key, "%d lengths; at most %d are supported, each takes time to prove when the model is loaded", n,
			maxBuckets)
	}
	for i, length := range v.Buckets {
		at := fmt.Sprintf("%s[%d]", key, i)
		config.Between(faults, at, length, 1, maxLength)
		if i > 0 && length <= v.Buckets[i-1] {
			faults.Addf(at, "%d comes after %d; expected ascending lengths", length, v.Buckets[i-1])
		}
	}
}
