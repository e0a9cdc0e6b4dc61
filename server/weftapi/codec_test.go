package weftapi

import (
	"testing"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
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
		came  [wire.Typed + 1]int
		want  bool
	}{
		{"all raw", mirror, [wire.Typed + 1]int{wire.Raw: 2}, true},
		{"all typed", mirror, [wire.Typed + 1]int{wire.Typed: 2}, false},
		{"tie", mirror, [wire.Typed + 1]int{wire.Raw: 1, wire.Typed: 1}, true},
		{"mostly typed", mirror, [wire.Typed + 1]int{wire.Raw: 1, wire.Typed: 2}, false},
		{"strings are typed", mirror, [wire.Typed + 1]int{wire.Typed: 1}, false},
		{"empty ones do not count", mirror, [wire.Typed + 1]int{wire.None: 3, wire.Typed: 1}, false},
		{"no inputs", unspecified, [wire.Typed + 1]int{}, true},
		{"unspecified mirrors", unspecified, [wire.Typed + 1]int{wire.Typed: 1}, false},
		{"raw for typed", raw, [wire.Typed + 1]int{wire.Typed: 1}, true},
		{"typed for raw", typed, [wire.Typed + 1]int{wire.Raw: 1}, false},
	} {
		if got := answersRaw(tt.asked, &tt.came); got != tt.want {
			t.Errorf("%s: raw is %v", tt.name, got)
		}
	}
}
