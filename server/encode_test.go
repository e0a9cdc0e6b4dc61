package server

import (
	"strings"
	"testing"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/wire"
)

func TestAnswersRaw(t *testing.T) {
	const (
		unspecified = weftv1.OutputEncoding_OUTPUT_ENCODING_UNSPECIFIED
		mirror      = weftv1.OutputEncoding_OUTPUT_ENCODING_MIRROR
		raw         = weftv1.OutputEncoding_OUTPUT_ENCODING_RAW
		typed       = weftv1.OutputEncoding_OUTPUT_ENCODING_TYPED
	)
	for _, tt := range []struct {
		name  string
		asked weftv1.OutputEncoding
		came  forms
		want  bool
	}{
		{"all raw", mirror, forms{wire.Raw: 2}, true},
		{"all typed", mirror, forms{wire.Typed: 2}, false},
		{"tie", mirror, forms{wire.Raw: 1, wire.Typed: 1}, true},
		{"mostly typed", mirror, forms{wire.Raw: 1, wire.Typed: 2}, false},
		{"strings are typed", mirror, forms{wire.Typed: 1}, false},
		{"empty ones do not count", mirror, forms{wire.None: 3, wire.Typed: 1}, false},
		{"no inputs", unspecified, forms{}, true},
		{"unspecified mirrors", unspecified, forms{wire.Typed: 1}, false},
		{"raw for typed", raw, forms{wire.Typed: 1}, true},
		{"typed for raw", typed, forms{wire.Raw: 1}, false},
	} {
		if got := answersRaw(tt.asked, &tt.came); got != tt.want {
			t.Errorf("%s: raw is %v", tt.name, got)
		}
	}
}

func TestEncodeRefusesBrokenResults(t *testing.T) {
	specs := []tensor.Spec{{Name: "y", DType: tensor.Float32}}
	_, err := encodeOutputs(specs, nil, []tensor.Tensor{{DType: tensor.Float32, Shape: tensor.Shape{2}, Data: make([]byte, 7)}}, true)
	if err == nil || !strings.HasPrefix(err.Error(), `output "y": `) {
		t.Errorf("a short result gives %v", err)
	}
	specs[0].Name = "\xff"
	if _, err := encodeOutputs(specs, nil, []tensor.Tensor{{DType: tensor.Float32, Data: make([]byte, 4)}}, true); err == nil {
		t.Error("a name that no message can carry gives no error")
	}
	if _, err := encodeOutputs(specs, nil, nil, true); err == nil {
		t.Error("a missing result gives no error")
	}
}
