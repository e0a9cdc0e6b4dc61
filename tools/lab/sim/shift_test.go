package sim

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

// playShifts plays the shifts of some names, and returns the results by shift and way.
func playShifts(t *testing.T, names ...string) *Findings {
	t.Helper()
	s := Study{
		Families: Families([]Maker{Core(Ours, CoreOptions{})}), Effort: Effort{Span: 8 * time.Second, Seeds: 1},
		Workers: 2,
	}
	for _, name := range names {
		for _, shift := range Shifts() {
			if shift.Name == name {
				s.Shifts = append(s.Shifts, shift)
			}
		}
	}
	if len(s.Shifts) != len(names) {
		t.Fatalf("%d shifts for the names %q", len(s.Shifts), names)
	}
	return s.Run()
}

// isBack reports whether predictions are good again as soon as they must be: within two samples or three batches,
// whichever is later, in every run.
func isBack(t *Told) bool {
	for _, a := range t.After {
		for _, s := range a.runs {
			if s.Back > 2*sampled.Every && s.Batches > 3 {
				return false
			}
		}
	}
	return true
}

// TestTelemetryMusts: a scheduler that telemetry notifies of another clock predicts well at once, as soon as it must.
// Without telemetry that takes longer where batches are few, and a co-tenant is not understood for seconds.
func TestTelemetryMusts(t *testing.T) {
	skipUnderRace(t)
	f := playShifts(t, "clock step", "clock step, heavy models", "co-tenant")
	for j, shift := range f.Study.Shifts {
		without, with := f.Shifts[Pair{untold, shift.Name}], f.Shifts[Pair{toldAll, shift.Name}]
		for k := range with.After {
			t.Logf("%s, change %d: with telemetry %+v, without %+v", shift.Name, k, with.After[k], without.After[k])
			if with.After[k].Median.Error == 0 || len(with.After[k].runs) != shiftRuns {
				t.Errorf("%s: nothing was seen of change %d", shift.Name, k)
			}
		}
		if !isBack(&with) {
			t.Errorf("%s: %+v", shift.Name, with.After)
		}
		if j > 0 && isBack(&without) {
			t.Errorf("%s without telemetry, and nobody notices: %+v", shift.Name, without.After)
		}
		if with.After[0].Median.Back > without.After[0].Median.Back {
			t.Errorf("%s: telemetry delays it, %+v and %+v", shift.Name, with.After[0], without.After[0])
		}
		if with.Missed > 1.2*without.Missed { // it makes no difference
			t.Errorf("%s: %.4f of the requests are missed with telemetry, %.4f without", shift.Name, with.Missed,
				without.Missed)
		}
	}
}

// TestMemoryMusts: a scheduler that knows how much memory is free hardly runs out of it, and one that learns which
// batches ran out does so seldom.
func TestMemoryMusts(t *testing.T) {
	skipUnderRace(t)
	f := playShifts(t, "memory")
	told := func(way string) Told { return f.Shifts[Pair{way, "memory"}] }
	neither, without, with := told(forgetful), told(untold), told(toldAll)
	t.Logf("with %.1f batches out of memory and %.3f missed, without %.1f and %.3f, forgetful %.1f and %.3f",
		with.OutOfMemory, with.Missed, without.OutOfMemory, without.Missed, neither.OutOfMemory, neither.Missed)
	if with.OutOfMemory > 0.5 || without.OutOfMemory < 5 || without.OutOfMemory > 30 ||
		neither.OutOfMemory < 3*without.OutOfMemory {
		t.Error("batches run out of memory otherwise than they must")
	}
	if with.Missed > without.Missed || without.Missed > neither.Missed {
		t.Error("what memory is known does not help")
	}
	var b bytes.Buffer
	if err := f.Markdown(&b); err != nil || !strings.Contains(b.String(), "| memory, with telemetry | 0.0 | 0.0 % |") {
		t.Errorf("%v, %s", err, &b)
	}
}

// TestMemoryOfTheDevice: a batch that does not fit runs again in halves, and a half that does not fit either fails.
func TestMemoryOfTheDevice(t *testing.T) {
	for _, tc := range []struct {
		name        string
		memory      int64
		taken       int64
		want        []float64 // when requests ended, in ms, negative if they failed
		outOfMemory int
	}{
		{"all fits", 4, 0, []float64{5, 5, 5, 5}, 0},
		{"halves fit", 4, 2, []float64{11, 11, 11, 11}, 1},
		{"one half fits", 3, 2, []float64{-11, -11, -11, -11}, 1},
		{"nobody counts", 0, 2, []float64{5, 5, 5, 5}, 0},
	} {
		s := Setup{
			Models: []Model{{Base: time.Millisecond, PerRow: time.Millisecond, MaxBatch: 4, RowMemory: 1}},
			Device: Device{Memory: tc.memory, Pace: []Pace{{Taken: tc.taken}}},
		}
		requests := requestsAt(0, 0, 0, 0)
		wait := func(p *script, now Time, lane int) *Batch {
			if len(p.queue) < 4 && now == 0 {
				return nil
			}
			return inOrder(4)(p, now, lane)
		}
		r, err := Run(&s, requests, func(e *Env) Policy { return &script{env: e, next: wait} })
		if err != nil {
			t.Fatal(err)
		}
		if got := ends(requests); !slices.Equal(got, tc.want) || r.OutOfMemory != tc.outOfMemory {
			t.Errorf("%s: %v, %d out of memory; want %v, %d", tc.name, got, r.OutOfMemory, tc.want, tc.outOfMemory)
		}
	}
}
