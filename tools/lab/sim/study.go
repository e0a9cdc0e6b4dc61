package sim

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Study is a comparison of policies.
type Study struct {
	Families []Family // the first is the one that the others are compared with
	Variants []Family // of the first family's policy, for ablation
	// of the same, with one batch in flight or several; the others are compared with the first
	InFlight  []Family
	Workloads []Workload
	Scenes    []Scene
	Shifts    []Shift
	Loads     []float64 // of the curves; none: no curves
	Effort    Effort
	Workers   int      // runs at a time
	Progress  Progress // may be nil
}

// Findings holds the results of a study.
type Findings struct {
	Study   *Study
	Carried map[Pair]Carried
	Scenes  map[Pair]Seen
	Shifts  map[Pair]Told
}

// Pair names a family of policies, or a way, and the workload, scene or shift that it plays.
type Pair struct{ Policy, On string }

// Carried is how a family carries a workload.
type Carried struct {
	G99   float64   // in units of the fluid capacity
	Tuned []string  // the member of the family that this is of, on each draw
	Curve []float64 // share on time at each load of the study, of the first draw
	// Copying is the part of the device's busy time in which no batch computes, at load 1.
	Copying float64
}

func (c Carried) String() string { return fmt.Sprintf("%.2f (%s)", c.G99, settings(c.Tuned)) }

// settings names the members chosen for each draw: a single one if they are the same.
func settings(tuned []string) string {
	if len(slices.Compact(slices.Clone(tuned))) == 1 {
		return tuned[0]
	}
	return strings.Join(tuned, ", ")
}

// Progress is called for each figure that was found, one at a time: the how manieth it is, of how many.
type Progress func(done, of int, figure string)

// Run carries the study out.
func (s *Study) Run() *Findings {
	f := &Findings{s, map[Pair]Carried{}, map[Pair]Seen{}, map[Pair]Told{}}
	q := &queue{progress: s.Progress}
	for i := range s.Workloads {
		w := &s.Workloads[i]
		for _, family := range s.Families {
			find(q, f.Carried, family.Name, w.Name, func() Carried { return s.carry(w, &family, s.Loads) })
		}
		for _, family := range slices.Concat(s.Variants, s.InFlight) {
			if !w.Further {
				find(q, f.Carried, family.Name, w.Name, func() Carried { return s.carry(w, &family, nil) })
			}
		}
	}
	for i := range s.Scenes {
		scene := &s.Scenes[i]
		families := s.Families
		if scene.Isolation {
			families = slices.Concat(families, s.Variants)
		}
		for _, family := range families {
			find(q, f.Scenes, family.Name, scene.Name, func() Seen { return scene.PlayBest(&family, s.Effort) })
		}
	}
	for i := range s.Shifts {
		shift := &s.Shifts[i]
		for _, way := range shift.Ways {
			find(q, f.Shifts, way.Name, shift.Name, func() Told { return shift.Play(&way, s.Effort) })
		}
	}
	q.work(max(s.Workers, 1))
	return f
}

// carry plays a workload. A workload whose models are not drawn gets as many runs as one whose models are drawn three
// times.
func (s *Study) carry(w *Workload, f *Family, loads []float64) Carried {
	e := s.Effort
	if len(w.Again) == 0 {
		e.Seeds *= timesDrawn
	}
	var c Carried
	c.G99, c.Tuned = G99(w, f, e)
	t := newTrial(w, e)
	for _, load := range loads {
		c.Curve = append(c.Curve, t.onTime(f.member(c.Tuned[0]), load))
	}
	if m := &f.Members[0]; m.Copying > 0 {
		r := w.Play(m, 1, e.Span, e.seed(0))
		c.Copying = float64(r.Busy-r.Computed) / float64(r.Busy)
	}
	return c
}

// queue holds the figures that are still to be found.
type queue struct {
	figures  []func()
	found    sync.Mutex // guards the maps of figures
	done     int        // guarded by found
	progress Progress
}

// find queues a figure. Each has a place of its own, so that the outcome does not depend on their order.
func find[T fmt.Stringer](q *queue, figures map[Pair]T, policy, on string, figure func() T) {
	q.figures = append(q.figures, func() {
		it := figure()
		q.found.Lock()
		defer q.found.Unlock()
		figures[Pair{policy, on}] = it
		if q.done++; q.progress != nil {
			q.progress(q.done, len(q.figures), fmt.Sprintf("%s on %s: %v", policy, on, it))
		}
	})
}

// work finds all figures, several at a time.
func (q *queue) work(workers int) {
	next := make(chan func())
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for figure := range next {
				figure()
			}
		})
	}
	for _, figure := range q.figures {
		next <- figure
	}
	close(next)
	wg.Wait()
}
