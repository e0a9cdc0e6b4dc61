package shadow_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/tensor/compare"
	"github.com/weftserve/weft/server/shadow"
)

func TestTally(t *testing.T) {
	number := func(absolute, relative, cosine float64, rows, same int64, agreed bool) compare.Difference {
		return compare.Difference{
			Name: "action", MaxAbsolute: absolute, MaxRelative: relative, Cosine: cosine, HasCosine: true, Rows: rows,
			SameArgmax: same, Agreed: agreed,
		}
	}
	var tally shadow.Tally
	if got := tally.Outputs(); len(got) != 0 {
		t.Errorf("nothing was added: %+v", got)
	}
	for _, d := range []compare.Difference{
		number(1, 0.5, 0.75, 3, 1, false),
		number(3, 0.1, 0.25, 4, 4, true),
		number(2, 0.2, 0.5, 1, 1, false),
		{Name: "action", MaxAbsolute: 0, Agreed: true}, // of NaN alone
		{Name: "action", Mismatch: "another shape"},
		{Name: "text", MaxAbsolute: 1, MaxRelative: 1},
		{Name: "text", Agreed: true},
	} {
		tally.Add([]compare.Difference{d})
	}
	tally.Add([]compare.Difference{{Name: "none", Mismatch: "missing"}, {Name: "text", Agreed: true}})
	want := []shadow.OutputSummary{
		{
			Name: "action", MaxAbsolute: 3, MaxRelative: 0.5, MinCosine: 0.25, MeanCosine: 0.5, Cosines: 3,
			ArgmaxAgreement: 0.75, Rows: 8, Agreed: 2, Mismatched: 1,
		},
		{Name: "none", Mismatched: 1},
		{Name: "text", MaxAbsolute: 1, MaxRelative: 1, Agreed: 2},
	}
	if diff := cmp.Diff(want, tally.Outputs()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
