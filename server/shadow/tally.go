package shadow

import (
	"slices"
	"strings"

	"github.com/weftserve/weft/runtime/tensor/compare"
)

// Tally adds up the differences of many requests, output by output. The zero value is empty. It is not safe for
// concurrent use.
type Tally struct {
	outputs []*tallied // ascending by name
}

type tallied struct {
	OutputSummary
	cosines    float64 // their sum
	sameArgmax int64
}

// OutputSummary compares one output over many requests.
type OutputSummary struct {
	Name string
	// MaxAbsolute and MaxRelative are the largest of all requests; see compare.Difference.
	MaxAbsolute, MaxRelative float64
	// MinCosine and MeanCosine are those of Cosines requests; where that is 0 they are 0 and mean nothing.
	MinCosine, MeanCosine float64
	Cosines               int64
	// ArgmaxAgreement is the part of Rows, the rows of all requests, whose largest element is at the same place; 0 of
	// no rows.
	ArgmaxAgreement float64
	Rows            int64
	// Agreed counts requests in which this output was within the tolerance, Mismatched those in which its type or shape
	// differed: these count in no other field.
	Agreed, Mismatched int64
	// Print is in summaries with details, of outputs that have one.
	Print *Print
}

// Add takes in the differences of one request, as compare.Outputs gives them.
func (t *Tally) Add(differences []compare.Difference) {
	for i := range differences {
		d := &differences[i]
		at, is := slices.BinarySearchFunc(t.outputs, d.Name,
			func(o *tallied, name string) int { return strings.Compare(o.Name, name) })
		if !is {
			t.outputs = slices.Insert(t.outputs, at, &tallied{OutputSummary: OutputSummary{Name: d.Name}})
		}
		t.outputs[at].add(d)
	}
}

// Outputs returns the summaries of the outputs that were added, ascending by name.
func (t *Tally) Outputs() []OutputSummary {
	all := make([]OutputSummary, len(t.outputs))
	for i, o := range t.outputs {
		all[i] = o.OutputSummary
		if o.Cosines > 0 {
			all[i].MeanCosine = o.cosines / float64(o.Cosines)
		}
		if o.Rows > 0 {
			all[i].ArgmaxAgreement = float64(o.sameArgmax) / float64(o.Rows)
		}
	}
	return all
}

func (o *tallied) add(d *compare.Difference) {
	if d.Mismatch != "" {
		o.Mismatched++
		return
	}
	o.MaxAbsolute = max(o.MaxAbsolute, d.MaxAbsolute)
	o.MaxRelative = max(o.MaxRelative, d.MaxRelative)
	if d.HasCosine {
		if o.Cosines == 0 || d.Cosine < o.MinCosine {
			o.MinCosine = d.Cosine
		}
		o.cosines += d.Cosine
		o.Cosines++
	}
	o.Rows += d.Rows
	o.sameArgmax += d.SameArgmax
	if d.Agreed {
		o.Agreed++
	}
}
