package modelrepo

import (
	"fmt"
	"strings"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/tensor"
)

// Synth describes a synthetic model: an execution of n rows takes Base + n × PerRow, and the outputs are made up.
type Synth struct {
	// Base and PerRow (0 to 1m; default 0) are the duration of an execution independent of its rows, and the duration
	// that each row adds.
	Base   config.Duration `yaml:"base"`
	PerRow config.Duration `yaml:"per_row"`
	// Jitter (0 to 1; default 0) varies each duration by up to this fraction in both directions. 0 disables it.
	Jitter float64 `yaml:"jitter"`
	// Seed (default 0) makes jitter and outputs reproducible.
	Seed int64 `yaml:"seed"`
	// FailOnNaN and FailEvery make executions fail: with a NaN in an input, and every Nth one. By default none fails.
	FailOnNaN bool `yaml:"fail_on_nan"`
	FailEvery int  `yaml:"fail_every"`
	// Inputs and Outputs are the signature by tensor name, at least one of each.
	Inputs  map[string]Tensor `yaml:"inputs"`
	Outputs map[string]Tensor `yaml:"outputs"`
}

// Tensor declares one input or output of a synthetic model.
type Tensor struct {
	// DType (required) is the type of the elements.
	DType DType `yaml:"dtype"`
	// Shape (required) has -1 where a size varies; an output only in its batch dimension. [] is a scalar. At most 8
	// dimensions and 2^28 elements per row.
	Shape tensor.Shape `yaml:"shape,flow"`
}

// DType is an element type by its name in manifests: bool, int8 ... uint64, fp16, bf16, fp32, fp64, string.
type DType tensor.DType

// UnmarshalText reads a name, also one in capitals, as the Open Inference Protocol writes it.
func (d *DType) UnmarshalText(text []byte) error {
	parsed, ok := tensor.ParseDType(strings.ToLower(string(text)))
	if !ok {
		return fmt.Errorf("expected one of bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, fp16, "+
			"bf16, fp32, fp64, string, found %q", text)
	}
	*d = DType(parsed)
	return nil
}

// MarshalText gives the name.
func (d DType) MarshalText() ([]byte, error) { return []byte(tensor.DType(d).String()), nil }
