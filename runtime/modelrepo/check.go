package modelrepo

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/weftserve/weft/internal/config"
)

// Check returns everything that is wrong with the settings, whatever versions the repository has.
func (m *Manifest) Check() config.Faults { return m.check(false) }

// check is Check; steps says that versions are made of others, whose states the server keeps, too.
func (m *Manifest) check(steps bool) config.Faults {
	var faults config.Faults
	m.checkEngine(&faults)
	config.Between(&faults, "weight", m.Weight, 0.001, 1000)
	config.Between(&faults, "copies", m.Copies, 0, 1000)
	config.Between(&faults, "target_latency", m.TargetLatency, 0, config.Duration(time.Hour))
	config.Between(&faults, "max_latency", m.MaxLatency, 0, config.Duration(maxLimit))
	if m.MaxLatency > 0 && m.TargetLatency > m.MaxLatency {
		faults.Addf("target_latency", "%v is later than max_latency (%v); lower it, or raise max_latency",
			m.TargetLatency, m.MaxLatency)
	}
	if m.MaxLatency > 0 && m.Batching.BatchTimeout > m.MaxLatency {
		faults.Addf("batching.batch_timeout", "%v is longer than max_latency (%v), so that a held batch would come "+
			"too late; lower it, or raise max_latency",
			m.Batching.BatchTimeout, m.MaxLatency)
	}
	m.Batching.check(&faults)
	m.checkNames(&faults)
	m.Versions.Policy.check(&faults)
	for _, label := range sortedKeys(m.Versions.Labels) {
		key := "versions.labels." + label
		if !ValidName(label) {
			faults.Addf(key, "a label %s, found %q", nameRule, label)
		}
		if n := m.Versions.Labels[label]; n < 1 {
			faults.Addf(key, "version %d; expected a positive number", n)
		}
	}
	m.Traffic.check(&faults)
	m.checkWarmup(&faults)
	m.State.check(&faults, steps)
	return faults
}

func (m *Manifest) checkEngine(faults *config.Faults) {
	m.ONNX.check(faults, &m.Batching)
	if m.Synth == nil {
		return
	}
	if !reflect.DeepEqual(m.ONNX, defaultONNX()) {
		faults.Addf("onnx", "a synthetic model does not run on ONNX Runtime; remove onnx or synth")
	}
	if m.Isolation == IsolateModel {
		faults.Addf("isolation", "a synthetic model runs in the server's process; remove isolation or synth")
	}
	m.Synth.check(faults, m.Batching.BatchDim.Outputs)
}

func (b *Batching) check(faults *config.Faults) {
	config.Between(faults, "batching.max_batch_size", b.MaxBatchSize, 0, maxBatch)
	config.Between(faults, "batching.max_batch_cost", b.MaxBatchCost, config.Duration(100*time.Microsecond),
		config.Duration(time.Minute))
	config.Between(faults, "batching.batch_timeout", b.BatchTimeout, 0, config.Duration(maxTimeout))
	config.Between(faults, "batching.max_queue", b.MaxQueue, 0, maxQueue)
	config.Between(faults, "batching.max_request_rows", b.MaxRequestRows, 1, 1<<20)
	config.Between(faults, "batching.audit", b.Audit, 0, MostAudit)
	config.Between(faults, "batching.tolerance", b.Tolerance, 0, 1)
	b.checkSizes(faults)
}

// checkSizes judges which batch sizes may be executed.
func (b *Batching) checkSizes(faults *config.Faults) {
	largest := 0
	for i, size := range b.AllowedBatchSizes {
		key := fmt.Sprintf("batching.allowed_batch_sizes[%d]", i)
		switch {
		case size < 1:
			faults.Addf(key, "%d rows; expected at least 1", size)
		case b.MaxBatchSize > 0 && size > b.MaxBatchSize:
			faults.Addf(key, "%d is above batching.max_batch_size (%d); raise that or remove this size", size,
				b.MaxBatchSize)
		case i > 0 && size <= b.AllowedBatchSizes[i-1]:
			faults.Addf(key, "%d comes after %d; expected ascending sizes", size, b.AllowedBatchSizes[i-1])
		}
		largest = max(largest, size)
	}
	if largest > 0 && largest < b.MaxBatchSize {
		faults.Addf("batching.allowed_batch_sizes",
			"the largest is %d, but batching.max_batch_size is %d (set that to %d, or add the size %d); "+
				"expected the largest to be batching.max_batch_size", largest, b.MaxBatchSize, largest, b.MaxBatchSize)
	}
}

// maxRank is far above the rank of any model's tensors; it keeps a dimension number from being a typing error.
const maxRank = 8

// checkNames judges the manifest's statements about tensors by name.
func (m *Manifest) checkNames(faults *config.Faults) {
	b := &m.Batching
	for _, side := range []struct {
		key  string
		dims map[string]int
	}{{"inputs", b.BatchDim.Inputs}, {"outputs", b.BatchDim.Outputs}} {
		for _, name := range sortedKeys(side.dims) {
			key := "batching.batch_dim." + side.key + "." + name
			config.Between(faults, key, side.dims[name], 0, maxRank-1)
			if m.Synth != nil {
				m.Synth.checkTensor(faults, key, side.key, name, side.dims[name])
			}
		}
	}
	for i, name := range b.Unbatched {
		key := fmt.Sprintf("batching.unbatched[%d]", i)
		if _, also := b.BatchDim.Inputs[name]; also {
			faults.Addf(key, "%q has a batch dimension in batching.batch_dim.inputs; name it in one place only", name)
		}
		if slices.Contains(b.Unbatched[:i], name) {
			faults.Addf(key, "%q is listed twice; expected each name once", name)
		}
		if m.Synth != nil {
			m.Synth.checkTensor(faults, key, "inputs", name, 0)
		}
	}
	m.checkVariableDims(faults)
}

func (s *Synth) check(faults *config.Faults, batchDim map[string]int) {
	config.Between(faults, "synth.base", s.Base, 0, config.Duration(time.Minute))
	config.Between(faults, "synth.per_row", s.PerRow, 0, config.Duration(time.Minute))
	config.Between(faults, "synth.jitter", s.Jitter, 0, 1)
	config.Between(faults, "synth.fail_every", s.FailEvery, 0, math.MaxInt32)
	s.checkSide(faults, "inputs", s.Inputs, nil)
	s.checkSide(faults, "outputs", s.Outputs, batchDim)
}

// maxElements bounds one synthetic tensor's elements per row.
const maxElements = 1 << 28

// checkSide judges the inputs or outputs of a synthetic model.
func (s *Synth) checkSide(faults *config.Faults, side string, tensors map[string]Tensor, batchDim map[string]int) {
	key := "synth." + side
	if len(tensors) == 0 {
		faults.Addf(key, "expected at least one tensor, such as {x: {dtype: fp32, shape: [-1, 48]}}")
	}
	for _, name := range sortedKeys(tensors) {
		t, at := tensors[name], key+"."+name
		if t.DType == 0 {
			faults.Addf(at, "dtype is missing; expected such as {dtype: fp32, shape: [-1, 48]}")
		}
		if t.Shape == nil {
			faults.Addf(at, "shape is missing; expected such as {dtype: fp32, shape: [-1, 48]}, or [] for a scalar")
		}
		if len(t.Shape) > maxRank {
			faults.Addf(at+".shape", "%d dimensions; at most %d are supported", len(t.Shape), maxRank)
		}
		elements := int64(1)
		for i, size := range t.Shape {
			switch dim := fmt.Sprintf("%s.shape[%d]", at, i); {
			case size == -1 && side == "outputs" && i != batchDim[name]:
				faults.Addf(dim, "-1 is not the batch dimension (%d); the size of an output must be known",
					batchDim[name])
			case size == -1:
			case size < 1:
				faults.Addf(dim, "%d; expected a positive size, or -1 where it varies", size)
			case size > maxElements/elements:
				faults.Addf(at+".shape", "more than %d elements", maxElements)
				elements = maxElements + 1
			default:
				elements *= size
			}
			if elements > maxElements {
				break
			}
		}
	}
}

// checkTensor adds a fault to key unless the named tensor exists on that side and has dimension dim.
func (s *Synth) checkTensor(faults *config.Faults, key, side, name string, dim int) {
	tensors := s.Inputs
	if side == "outputs" {
		tensors = s.Outputs
	}
	t, ok := tensors[name]
	switch {
	case !ok:
		faults.Addf(key, "the model has no such tensor, only %s; expected the name of one of synth.%s",
			list(sortedKeys(tensors)), side)
	case dim > 0 && dim >= len(t.Shape):
		faults.Addf(key, "dimension %d does not exist, the shape has %d; expected one that it has, counted from 0", dim,
			len(t.Shape))
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
