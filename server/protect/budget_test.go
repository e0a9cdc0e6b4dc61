package protect_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"

	"google.golang.org/protobuf/proto"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/protect"
)

// unmarshal decodes a request.
func unmarshal(data []byte) error { return protect.Unmarshal(data, &weftv1.PredictRequest{}) }

// TestPlain: what callers send is let through, whatever it is made of.
func TestPlain(t *testing.T) {
	for seed := range uint64(300) {
		draw := rand.New(rand.NewPCG(seed, 0))
		m := &weftv1.PredictRequest{Model: &weftv1.ModelSpec{Name: "m"}, Inputs: map[string]*weftv1.Tensor{}}
		for i := range draw.IntN(64) {
			in := &weftv1.Tensor{Dtype: weftv1.DataType(draw.IntN(15)), Shape: make([]int64, draw.IntN(6))}
			switch n := draw.IntN(1 << draw.IntN(14)); draw.IntN(6) {
			case 0:
				in.Raw = make([]byte, n)
			case 1:
				in.FloatValues = make([]float32, n)
			case 2:
				in.Int64Values = make([]int64, n)
			case 3:
				in.BoolValues = make([]bool, n)
			case 4:
				in.StringValues = make([][]byte, n)
			default:
				in.DoubleValues = make([]float64, n)
			}
			m.Inputs[string(rune('a'+i))] = in
		}
		data, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := unmarshal(data); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// TestFine: messages of many empty parts are refused, and a message that is not refused takes no more than it may.
func TestFine(t *testing.T) {
	for name, part := range map[string][]byte{
		"inputs without anything": {0x12, 0},
		"empty tensors":           {0x12, 4, 0x0a, 0, 0x12, 0},
		"models":                  {0x0a, 0},
		"durations":               {0x3a, 0},
		"texts":                   {0x1a, 0},
		"sizes":                   {0x12, 5, 0x12, 3, 0x12, 1, 0},
		"unknown":                 {0xfa, 0x01, 0},
	} {
		data := bytes.Repeat(part, (1<<20)/len(part))
		err := unmarshal(data)
		if _, refused := errors.AsType[*protect.DecodeError](err); refused {
			continue
		}
		if took, most := allocated(data), uint64(1<<20+4*len(data)); took > 3*most {
			t.Errorf("%s: let through, and takes %d bytes, of at most %d", name, took, most)
		}
	}
	if err := unmarshal(bytes.Repeat([]byte{0x12, 0}, 1<<20)); err == nil {
		t.Error("a million empty inputs are let through")
	}
}

// allocated returns how many bytes decoding takes.
func allocated(data []byte) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_ = proto.Unmarshal(data, &weftv1.PredictRequest{})
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// FuzzUnmarshal: whatever the bytes are, they nothing panics.
func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte{0x12, 4, 0x0a, 0, 0x12, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = unmarshal(data)
	})
}
