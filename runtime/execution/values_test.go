package execution

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weftserve/weft/runtime/tensor"
)

// TestValuesAreForgotten: the values that were asked for last are remembered, up to a number and a size in bytes.
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

// TestProofsOfValuesTakeTheirShareOnly: a second at first, and then a tenth of the device time of answered requests; no
// more than a second is saved up. One value is proven at a time, and none for callers that may not have it.
func TestProofsOfValuesTakeTheirShareOnly(t *testing.T) {
	v := NewValues(&tensor.Signature{Inputs: []tensor.Spec{{BatchDim: tensor.NoBatch}}})
	proofs, n := 0, 0
	prove := func(took time.Duration) {
		n++
		for range 2 {
			if _, prove := v.Ask(strconv.Itoa(n), true); prove {
				proofs++
				v.Settle(strconv.Itoa(n), false, took)
			}
		}
	}
	for range 10 {
		prove(300 * time.Millisecond)
	}
	if proofs != 4 {
		t.Errorf("%d proofs of 300 ms are made of a second", proofs)
	}
	v.Earn(2 * time.Second) // which does not make up for it
	if prove(0); proofs != 4 {
		t.Error("a proof is made on credit")
	}
	v.Earn(time.Second)
	if prove(300 * time.Millisecond); proofs != 5 {
		t.Error("no proof is made although it was earned")
	}
	v.Earn(time.Hour)
	for range 10 {
		prove(300 * time.Millisecond)
	}
	if proofs != 9 {
		t.Errorf("%d proofs, want 4 of what can be saved up", proofs)
	}
	v.Earn(time.Hour)
	v.Ask("a", true)
	v.Ask("b", true)
	if _, prove := v.Ask("a", false); prove {
		t.Error("a proof is begun that may not be")
	}
	if _, prove := v.Ask("a", true); !prove {
		t.Error("no proof is begun")
	}
	if _, prove := v.Ask("b", true); prove {
		t.Error("two proofs are made at once")
	}
}

// TestWhatHasValues: inputs without rows, and open dimensions that are not filled up to a size that was proven.
func TestWhatHasValues(t *testing.T) {
	open := tensor.Spec{Shape: tensor.Shape{tensor.Unknown, tensor.Unknown}}
	padded, elsewhere := open, open
	padded.Variable = &tensor.Variable{Dim: 1, Buckets: []int64{4}}
	elsewhere.Variable = &tensor.Variable{Dim: 0, Buckets: []int64{4}}
	for _, c := range []struct {
		in   tensor.Spec
		want bool
	}{
		{tensor.Spec{Shape: tensor.Shape{tensor.Unknown, 3}}, false},
		{open, true},
		{padded, false},
		{elsewhere, true},
		{tensor.Spec{Shape: tensor.Shape{3}, BatchDim: tensor.NoBatch}, true},
	} {
		s := &tensor.Signature{Inputs: []tensor.Spec{c.in}}
		if got := NewValues(s) != nil; got != c.want || len((&Plan{Signature: s}).Brought()) == 1 != c.want {
			t.Errorf("%+v: %v", c.in, got)
		}
	}
}
