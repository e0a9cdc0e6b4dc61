package shadow

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/weftserve/weft/runtime/tensor/compare"
)

// Tally adds up the differences of many requests, output by output. The zero value is empty. It is not safe for
// concurrent use.
type Tally struct {
	outputs []*tallied // ascending by name
}

// tallied are the sums of one output, by which Outputs makes means and parts of its summary.
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

// add takes in the difference of one request. One of another type or shape has no numbers, and is only counted.
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

// maxSamples bounds the samples that a reservoir keeps. The 99th percentile of so many has ten samples above it.
const maxSamples = 1024

// reservoir keeps an even sample of all pairs of compute times that it saw (Vitter's algorithm R): each of n pairs is
// kept with probability maxSamples/n. Its choices depend on nothing but how many came before.
type reservoir struct {
	seen            uint64
	random          rand.PCG // the zero value is as good a seed as any
	primary, shadow []time.Duration
}

func (r *reservoir) add(primary, shadow time.Duration) {
	r.seen++
	if len(r.primary) < maxSamples {
		r.primary, r.shadow = append(r.primary, primary), append(r.shadow, shadow)
		return
	}
	if i := rand.New(&r.random).Uint64N(r.seen); i < maxSamples {
		r.primary[i], r.shadow[i] = primary, shadow
	}
}

// quantiles sorts the sample and returns its median and its 99th percentile, by nearest rank; zeros of an empty sample.
func quantiles(sample []time.Duration) (p50, p99 time.Duration) {
	if len(sample) == 0 {
		return 0, 0
	}
	slices.Sort(sample)
	nearest := func(percent int) time.Duration { return sample[(percent*len(sample)+99)/100-1] } // rounded up
	return nearest(50), nearest(99)
}

// The bins of a Spread are of even width on a logarithmic scale, between these relative differences.
const (
	Bins       = 64
	SpreadFrom = 1e-9
	SpreadTo   = 10.0
)

// Spread counts relative differences by their size.
type Spread struct {
	Equal int64       // no element differs
	Below int64       // some do, by less than SpreadFrom
	Bins  [Bins]int64 // Bins[i] from SpreadFrom·(SpreadTo/SpreadFrom)^(i/Bins) on
	Above int64       // by SpreadTo or more, or infinitely
}

// add counts a relative difference, which is not negative. One that is not a number counts as Above.
func (s *Spread) add(relative float64) {
	switch {
	case relative == 0:
		s.Equal++
	case relative < SpreadFrom:
		s.Below++
	case !(relative < SpreadTo):
		s.Above++
	default:
		decades := math.Log10(relative / SpreadFrom)
		s.Bins[min(Bins-1, max(0, int(Bins*decades/math.Log10(SpreadTo/SpreadFrom))))]++
	}
}
