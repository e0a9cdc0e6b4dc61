package shadow_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/runtime/tensor/compare"
	"github.com/weftserve/weft/server/shadow"
	"github.com/weftserve/weft/sharedsched"
)

var everything = shadow.Detail{Fingerprints: true, Worst: true}

// row is one row of an output.
func row(values []float32) tensor.Tensor {
	v := tensor.Tensor{DType: tensor.Float32, Shape: tensor.Shape{1, int64(len(values))}}
	for _, x := range values {
		v.Data = binary.LittleEndian.AppendUint32(v.Data, math.Float32bits(x))
	}
	return v
}

func answersOf(elements int64, number int64) *catalog.Version {
	return &catalog.Version{Model: "policy", Number: number, State: catalog.Ready, Signature: &tensor.Signature{
		Inputs: []tensor.Spec{spec("x", tensor.Float32, tensor.Unknown, 1)},
		Outputs: []tensor.Spec{{
			Name: "y", DType: tensor.Float32, Shape: tensor.Shape{tensor.Unknown, elements},
			Shown: &tensor.Shown{Labels: []string{"shoulder", "elbow", "wrist"}},
		}},
	}}
}

// duel shows requests to a shadow, one by one.
type duel struct {
	*shadow.Mirror
	primary, other []float32 // the answers
}

func newDuel() *duel {
	d := &duel{}
	d.Mirror = shadow.New(quiet(shadow.Config{Models: modelsFunc(func(_ context.Context, call *catalog.Call) error {
		call.Results = []tensor.Tensor{row(d.other)}
		return nil
	})}))
	return d
}

func (d *duel) ask(id string, primary, other []float32) {
	d.primary, d.other = primary, other
	d.Offer(shadow.Offer{
		Primary: &catalog.Call{
			Version: answersOf(int64(len(primary)), 1), Rows: 1,
			Inputs:  []tensor.Tensor{row([]float32{1})},
			Results: []tensor.Tensor{row(primary)},
			Outcome: sharedsched.Outcome{Compute: time.Millisecond},
		},
		RequestID: id, Shadows: []shadow.Target{{Version: answersOf(int64(len(primary)), 3)}},
	})
	synctest.Wait()
}

func (d *duel) audit(batched, alone []float32) {
	d.Audited("policy", 1, compare.Output{Name: "y", Tensor: row(batched)}, row(alone))
}

func (d *duel) print(t *testing.T) *shadow.Print {
	t.Helper()
	all := d.Summaries("policy", everything)
	if len(all) != 1 || all[0].Outputs[0].Print == nil {
		t.Fatalf("%+v", all)
	}
	return all[0].Outputs[0].Print
}

// TestAPlantedDifference in one element, in three slices of time, is in no other cell: all others are within what the
// live version differs by from itself.
func TestAPlantedDifference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const elements, planted = 8, 5
		time.Sleep(3 * time.Second) // slices need not begin with the test
		d := newDuel()
		r := rand.New(rand.NewPCG(4, 2))
		rounded := func(values []float32) []float32 { // as another batch does: off by up to eight units in the last place
			off := slices.Clone(values)
			for i := range off {
				off[i] += off[i] * float32(r.IntN(17)-8) * 0x1p-23
			}
			return off
		}
		draw := func() []float32 {
			values := make([]float32, elements)
			for i := range values {
				values[i] = float32(i+1) * (1 + r.Float32())
			}
			return values
		}
		for range 2000 {
			values := draw()
			d.audit(rounded(values), values)
		}
		for second := range 300 {
			for range 3 {
				values := draw()
				other := rounded(values)
				if slice := second / 10; slice == 7 || slice == 8 || slice == 20 {
					other[planted] *= 1.001
				}
				d.ask("", values, other)
			}
			time.Sleep(time.Second)
		}
		p := d.print(t)
		if len(p.Elements) != elements || p.RowElements != elements || p.Varying || p.AuditedRows != 2000 {
			t.Fatalf("%+v", p)
		}
		var names []string
		for i, e := range p.Elements {
			names = append(names, e.Name)
			if e.First != i || e.Count != 1 || e.Source != shadow.FromAudit {
				t.Errorf("element %d: %+v", i, e)
			}
		}
		if got := strings.Join(names, " "); got != "shoulder elbow wrist     " {
			t.Errorf("names %q", got)
		}
		rows, hot := int64(0), 0
		for k, s := range p.Slices {
			rows += s.Rows
			for i, far := range s.Errors {
				within := float64(far) <= 1.01*p.Elements[i].Floor
				if within == (i == planted && far > 1e-3) || !within && i != planted {
					t.Errorf("slice %d, element %d: %v with a floor of %v", k, i, far, p.Elements[i].Floor)
				}
				if !within {
					hot++
				}
			}
		}
		// The slices of the clock do not begin with those of the planting: each of the two runs touches one more.
		if hot != 5 || rows != 900 || len(p.Slices) != 31 {
			t.Errorf("%d cells above the floor, %d rows in %d slices", hot, rows, len(p.Slices))
		}
		if s := p.Errors; s.Equal+s.Below+s.Above+sum(s.Bins) != 900 || s.Above > 0 {
			t.Errorf("%+v", s)
		}
		if s := p.Noise; s.Equal+s.Below+s.Above+sum(s.Bins) != 2000 || s.Above > 0 {
			t.Errorf("%+v", s)
		}
	})
}

func sum(bins [shadow.Bins]int64) (n int64) {
	for _, b := range bins {
		n += b
	}
	return n
}

// TestFloors without an audit, with audits that saw nothing, and with ones that did.
func TestFloors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuel()
		d.ask("", []float32{1, -8}, []float32{1, -8})
		expect := func(source shadow.FloorSource, first, second float64) {
			t.Helper()
			e := d.print(t).Elements
			if e[0].Source != source || e[0].Floor != first || e[1].Floor != second {
				t.Errorf("%+v, want %v, %v by %v", e, first, second, source)
			}
		}
		const least = 4 * 8 * 0x1p-23
		expect(shadow.LeastUnaudited, least, least)
		if d.print(t).Noise != (shadow.Spread{}) {
			t.Error("noise without an audit")
		}
		d.audit([]float32{1, -8}, []float32{1, -8})
		expect(shadow.LeastAudited, least, least)
		d.audit([]float32{1.5, -8}, []float32{1, -8})
		expect(shadow.FromAudit, 0.5, least)
		// Of another version, and of another shape.
		d.Audited("policy", 2, compare.Output{Name: "y", Tensor: row([]float32{9, 9})}, row([]float32{1, 1}))
		d.Audited("policy", 1, compare.Output{Name: "y", Tensor: row([]float32{9, 9, 9})}, row([]float32{1, 1}))
		expect(shadow.FromAudit, 0.5, least)
	})
}

// TestLongRows are divided into runs of neighbours.
func TestLongRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuel()
		values := make([]float32, 1000)
		other := slices.Clone(values)
		values[10], other[999], other[500] = 1, 0.5, 0.25
		other[10] = 1
		d.ask("long", values, other)
		p := d.print(t)
		next := 0
		for i, e := range p.Elements {
			if e.First != next || e.Count < 15 || e.Count > 16 || e.Name != "" {
				t.Errorf("element %d: %+v", i, e)
			}
			next += e.Count
			want := float32(0)
			switch {
			case e.First <= 500 && 500 < next:
				want = 0.25
			case next == 1000:
				want = 0.5
			}
			if got := p.Slices[0].Errors[i]; got != want {
				t.Errorf("element %d: %v, want %v", i, got, want)
			}
		}
		if len(p.Elements) != 64 || next != 1000 {
			t.Errorf("%d elements of %d", len(p.Elements), next)
		}
		w := p.Worst[0]
		if w.Element != 999 || w.First != 936 || len(w.Primary) != 64 || w.Shadow[63] != 0.5 || w.Primary[63] != 0 {
			t.Errorf("%+v", w)
		}
		other[500] = 0.75
		d.ask("in the middle", values, other)
		if w := d.print(t).Worst[0]; w.Element != 500 || w.First != 468 || w.Shadow[32] != 0.75 || w.ID != "in the middle" {
			t.Errorf("%+v", w)
		}
	})
}

// TestTheWorstRequests are those with the largest differences, and can be compared.
func TestTheWorstRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuel()
		r := rand.New(rand.NewPCG(6, 1))
		var all []float64
		for i := range 300 {
			far := float32(r.IntN(1000)) / 1000 // some are equal
			d.ask(fmt.Sprint("request ", i), []float32{1, 0.5, 0}, []float32{1, 0.5, far})
			all = append(all, float64(far))
			time.Sleep(time.Second)
		}
		d.ask("broken\xff"+strings.Repeat("é", 200), []float32{1, 2, 3}, []float32{1, float32(math.NaN()), 3})
		slices.Sort(all)
		slices.Reverse(all)
		worst := d.print(t).Worst
		if len(worst) != 20 {
			t.Fatalf("%d", len(worst))
		}
		if w := worst[0]; !math.IsInf(w.Relative, 1) || w.Element != 1 || len(w.ID) > 128 ||
			!strings.HasPrefix(w.ID, "broken�é") || !math.IsNaN(w.Shadow[1]) || w.Primary[1] != 2 {
			t.Errorf("%+v", w)
		}
		for i, w := range worst[1:] {
			if w.Relative != all[i] || w.Element != 2 || !slices.Equal(w.Primary, []float64{1, 0.5, 0}) ||
				w.Shadow[2] != all[i] || w.Absolute != all[i] || !strings.HasPrefix(w.ID, "request ") || w.At.IsZero() {
				t.Errorf("%d: %+v, want %v", i, w, all[i])
			}
		}
		if p := d.Summaries("policy", shadow.Detail{Fingerprints: true})[0].Outputs[0].Print; p.Worst != nil {
			t.Error("rows that were not asked for")
		}
		if p := d.Summaries("policy", shadow.Detail{Worst: true})[0].Outputs[0].Print; p.Slices != nil || p.Elements != nil {
			t.Error("a fingerprint that was not asked for")
		}
		if p := d.Summaries("policy", shadow.Detail{})[0].Outputs[0].Print; p != nil {
			t.Error("details that were not asked for")
		}
	})
}
