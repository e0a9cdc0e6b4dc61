package sim

import (
	"slices"
	"testing"
	"time"
)

// rough is the workloads and scenes on which every policy is checked.
func rough() []Workload {
	all := append(Suite(), Bursts()...)
	for _, s := range Scenes() {
		all = append(all, s.Workload)
	}
	return all
}

// TestEveryRequestEndsOnce: whatever the policy, every request offered is on time, late, refused or dropped, no batch
// breaks the contract, and the device is never busier than time passes.
func TestEveryRequestEndsOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 17 seconds")
	}
	skipUnderRace(t)
	policies := Variants()
	for _, f := range Families(Policies()) {
		policies = append(policies, f.Members[len(f.Members)-1])
	}
	for _, p := range policies {
		for _, w := range rough() {
			r := w.Play(&p, 1.5, 200*time.Millisecond, 1)
			var device time.Duration
			for i := range r.Flows {
				f := &r.Flows[i]
				device += f.Useful + f.Wasted
				if f.Fates[OnTime]+f.missed() != f.Offered {
					t.Errorf("%s on %s: flow %d: %+v does not add up", p.Name, w.Name, i, *f)
				}
				if f.Useful < 0 || f.Wasted < 0 {
					t.Errorf("%s on %s: flow %d: %+v: negative device time", p.Name, w.Name, i, *f)
				}
			}
			if device != r.Busy || r.Busy > time.Duration(r.End)+time.Microsecond {
				t.Errorf("%s on %s: flows got %v, the device was busy for %v until %v", p.Name, w.Name, device, r.Busy,
					r.End)
			}
			for i := range r.requests {
				if q := &r.requests[i]; q.Fate == Waiting || q.running || q.Finish < q.Arrival {
					t.Fatalf("%s on %s: a request never ended: %+v", p.Name, w.Name, *q)
				}
			}
		}
	}
}

// TestSameSeedSameRun: only the seed decides.
func TestSameSeedSameRun(t *testing.T) {
	w := inSuite("het30cv3")
	for _, p := range Policies() {
		play := func(seed uint64) []Request {
			r := w.Play(&p, 1.2, 500*time.Millisecond, seed)
			for i := range r.requests {
				r.requests[i].Slot = 0 // the policy's
			}
			return r.requests
		}
		first := play(1)
		if !slices.Equal(first, play(1)) {
			t.Errorf("%s: two runs of one seed differ", p.Name)
		}
		if slices.Equal(first, play(2)) {
			t.Errorf("%s: two seeds give the same run", p.Name)
		}
	}
}

func TestFamilies(t *testing.T) {
	families := Families([]Maker{{Name: "a"}, {Name: "b1", Family: "b"}, {Name: "c"}, {Name: "b2", Family: "b"}})
	var got []string
	for _, f := range families {
		for _, m := range f.Members {
			got = append(got, f.Name+" "+m.Name)
		}
	}
	if want := []string{"a a", "b b1", "b b2", "c c"}; !slices.Equal(got, want) {
		t.Errorf("families %q, want %q", got, want)
	}
}
