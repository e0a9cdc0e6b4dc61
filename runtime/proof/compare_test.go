package proof

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/weftserve/weft/runtime/tensor"
)

func TestDeviation(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	doubles := func(values ...float64) tensor.Tensor {
		t := tensor.Tensor{DType: tensor.Float64, Shape: tensor.Shape{int64(len(values))}}
		for _, v := range values {
			t.Data = binary.LittleEndian.AppendUint64(t.Data, math.Float64bits(v))
		}
		return t
	}
	for _, test := range []struct {
		got, want tensor.Tensor
		scale     float64
		expect    float64
	}{
		{doubles(1, 2), doubles(1, 2), 2, 0},
		{doubles(1, 3), doubles(1, 2), 4, 0.25},
		{doubles(nan, 2), doubles(math.Float64frombits(0x7ff8000000000123), 2), 4, 0},
		{doubles(nan, 2), doubles(1, 2), 4, inf},
		{doubles(1, 2), doubles(1, nan), 4, inf},
		{doubles(inf), doubles(inf), 1, 0},
		{doubles(inf), doubles(-inf), 1, inf},
		{doubles(0.1), doubles(0), 0, inf},
		{doubles(0), doubles(math.Copysign(0, -1)), 0, 0},
		{
			tensor.Tensor{DType: tensor.Int8, Shape: tensor.Shape{1}, Data: []byte{1}},
			tensor.Tensor{DType: tensor.Int8, Shape: tensor.Shape{1}, Data: []byte{2}},
			2, inf,
		},
	} {
		got, err := deviation(test.got, test.want, slices.Repeat([]float64{test.scale}, 2), floor)
		if err != nil || got != test.expect {
			t.Errorf("%v against %v at scale %v: %v, %v; want %v", test.got, test.want, test.scale, got, err,
				test.expect)
		}
	}
	if _, err := deviation(doubles(1), doubles(1, 2), nil, floor); err == nil {
		t.Error("another shape is no error")
	}
}

// TestWhatPassesForRounding in an audit: ten times the tolerance, and more where the proof saw more.
func TestWhatPassesForRounding(t *testing.T) {
	row := Audited{Outputs: []tensor.Spec{{Name: "y", DType: tensor.Float32, Shape: tensor.Shape{1}}}}
	answer := func(v float32) []tensor.Tensor {
		return []tensor.Tensor{{
			DType: tensor.Float32, Shape: tensor.Shape{1}, Data: binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)),
		}}
	}
	for _, test := range []struct {
		by           float32
		rounds       bool
		wrong, round bool
	}{
		{5e-6, false, false, true},
		{5e-5, false, true, true},
		{5e-4, false, true, false},
		{5e-4, true, true, true},
		{2e-3, true, true, false},
	} {
		row.Rounds = test.rounds
		if d := (Seen{}).Compare(&row, answer(1+test.by), answer(1)); d.Wrong() != test.wrong || d.Rounding != test.round {
			t.Errorf("%g where the proof saw rounding (%v): wrong %v, rounding %v", test.by, test.rounds, d.Wrong(), d.Rounding)
		}
	}
}
