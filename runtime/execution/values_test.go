package execution

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weftserve/weft/runtime/tensor"
)

// TestValuesAreForgotten: as many are remembered as there may be, and as many bytes, of those that were asked for last.
func TestValuesAreForgotten(t *testing.T) {
	v := NewValues(&tensor.Signature{Inputs: []tensor.Spec{{BatchDim: tensor.NoBatch}}})
	for n := range mostValues + 2 {
		v.Ask(strconv.Itoa(n), true)
		v.Ask("0", true)
	}
	if v.known["0"] == nil || v.known["1"] != nil || v.known["2"] != nil || v.known["3"] == nil ||
		len(v.known) != mostValues {
		t.Errorf("%d are remembered, the first one: %v, the second: %v", len(v.known), v.known["0"] != nil,
			v.known["1"] != nil)
	} else if v.known["0"].Value.(*value).asked == 1 {
		t.Error("the one that was asked for again and again was forgotten in between")
	}
	for n := range 20 {
		v.Ask(strings.Repeat(string(rune('a'+n)), valueBytes), true)
	}
	v.Ask(strings.Repeat("z", valueBytes+1), true)
	if n := allValuesBytes / valueBytes; len(v.known) != n || v.bytes != n*valueBytes || v.recent.Len() != n {
		t.Errorf("%d of the largest are remembered, %d bytes", len(v.known), v.bytes)
	}
}

// TestProofsThatShowNothingAreRepeatedLessOften: each after twice as many requests.
func TestProofsThatShowNothingAreRepeatedLessOften(t *testing.T) {
	v := NewValues(&tensor.Signature{Inputs: []tensor.Spec{{BatchDim: tensor.NoBatch}}})
	var proofs []int
	for n := range 40 {
		if _, prove := v.Ask("k", true); prove {
			proofs = append(proofs, n+1)
			v.Settle("k", false, 0)
		}
	}
	if !slices.Equal(proofs, []int{2, 4, 8, 16, 32}) {
		t.Errorf("proven at requests %v", proofs)
	}
	v.Settle("k", true, 0)
	if proven, prove := v.Ask("k", true); !proven || prove {
		t.Errorf("a value that is proven: %v, to be proven: %v", proven, prove)
	}
}
