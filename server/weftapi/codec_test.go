package weftapi

import (
	"testing"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/wire/elements"
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
		came  [elements.Typed + 1]int
		want  bool
	}{
		{"all raw", mirror, [elements.Typed + 1]int{elements.AsRaw: 2}, true},
		{"all typed", mirror, [elements.Typed + 1]int{elements.Typed: 2}, false},
		{"tie", mirror, [elements.Typed + 1]int{elements.AsRaw: 1, elements.Typed: 1}, true},
		{"mostly typed", mirror, [elements.Typed + 1]int{elements.AsRaw: 1, elements.Typed: 2}, false},
		{"strings are typed", mirror, [elements.Typed + 1]int{elements.Typed: 1}, false},
		{"empty ones do not count", mirror, [elements.Typed + 1]int{elements.Absent: 3, elements.Typed: 1}, false},
		{"no inputs", unspecified, [elements.Typed + 1]int{}, true},
		{"unspecified mirrors", unspecified, [elements.Typed + 1]int{elements.Typed: 1}, false},
		{"raw for typed", raw, [elements.Typed + 1]int{elements.Typed: 1}, true},
		{"typed for raw", typed, [elements.Typed + 1]int{elements.AsRaw: 1}, false},
	} {
		if got := answersRaw(tt.asked, &tt.came); got != tt.want {
			t.Errorf("%s: raw is %v", tt.name, got)
		}
	}
}
