package catalog

import (
	"errors"
	"math"
	"testing"

	"github.com/weftserve/weft/runtime/tensor"
)

func TestTolerances(t *testing.T) {
	base := Shadow{Version: 2, Sample: 1, Tolerance: 0.5, Tolerances: map[string]float64{"action": 0.25, "exact": 0}}
	for output, want := range map[string]float64{"action": 0.25, "exact": 0, "value": 0.5} {
		if got := base.ToleranceOf(output); got != want {
			t.Errorf("the tolerance of %s is %v, want %v", output, got, want)
		}
	}
	if got := (&Shadow{}).ToleranceOf("value"); got != DefaultTolerance {
		t.Errorf("without any it is %v", got)
	}
}

func TestTolerancesAreChecked(t *testing.T) {
	m := &Model{Name: "m", Versions: []*Version{
		{Number: 2, Signature: &tensor.Signature{Outputs: []tensor.Spec{
			{Name: "action", DType: tensor.Float16},
			{Name: "choice", DType: tensor.Int64},
		}}},
		{Number: 3, State: Loading},
		{Number: 4, Signature: &tensor.Signature{Outputs: []tensor.Spec{{Name: "choice", DType: tensor.Int64}}}},
	}}
	for name, c := range map[string]struct {
		version    int64
		tolerances map[string]float64
		want       string // "": nothing is wrong
	}{
		"output":            {2, map[string]float64{"action": 0.1}, ""},
		"equal values":      {2, map[string]float64{"action": 0}, ""},
		"nothing known yet": {3, map[string]float64{"anything": 0.1}, ""},
		"not there":         {9, map[string]float64{"anything": 0.1}, ""},
		"negative": {
			2,
			map[string]float64{"action": -0.1},
			`traffic.shadow[0].tolerances["action"]: expected a number of at least 0, found -0.1`,
		},
		"not a number": {
			2,
			map[string]float64{"action": math.NaN()},
			`traffic.shadow[0].tolerances["action"]: expected a number of at least 0, found NaN`,
		},
		"infinite": {
			2,
			map[string]float64{"action": math.Inf(1)},
			`traffic.shadow[0].tolerances["action"]: expected a number of at least 0, found +Inf`,
		},
		"no name": {
			2,
			map[string]float64{"": 0.1},
			`traffic.shadow[0].tolerances: expected the names of outputs, found ""`,
		},
		"unknown": {
			2,
			map[string]float64{"action": 0.1, "actoin": 0.1},
			`traffic.shadow[0].tolerances: expected floating point outputs of version 2 ("action"), found "actoin"`,
		},
		"integer": {
			2,
			map[string]float64{"choice": 0.1},
			`traffic.shadow[0].tolerances: expected floating point outputs of version 2 ("action"), found "choice", which is int64 and agrees only if it is equal`,
		},
		"no float": {
			4,
			map[string]float64{"choice": 0.1},
			`traffic.shadow[0].tolerances: expected floating point outputs of version 4 (it has none), found "choice", which is int64 and agrees only if it is equal`,
		},
	} {
		traffic := &Traffic{Shadow: []Shadow{{Version: c.version, Sample: 1, Tolerances: c.tolerances}}}
		err := traffic.Check()
		if err == nil {
			err = traffic.CheckOutputs(m)
		}
		got := ""
		if err != nil {
			got = err.Error()
			if _, is := errors.AsType[*TrafficError](err); !is {
				t.Errorf("%s: a %T", name, err)
			}
		}
		if got != c.want {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}
