package sim

import (
	"errors"
	"fmt"
	"sync"
)

// Study is a comparison of policies.
type Study struct {
	Families  []Family // the first is the one that the others are compared with
	Workloads []Workload
	Variants  []Maker // of the first family's policy, for ablation
	// of the same, with one batch in flight or several; the others are compared with the first
	InFlight  []Maker
	Scenes    []Scene
	Shifts    []Shift
	Loads     []float64 // of the curves; none: no curves
	Hindsight bool      // also compare with a search that knows the future
	Effort    Effort
	Workers   int          // runs at a time
	Progress  func(string) // called for each figure that was found, from any goroutine; may be nil
}

// Findings holds the results of a study.
type Findings struct {
	Study     *Study
	G99       [][]float64  // by family and workload, in units of the fluid capacity
	Tuned     [][][]string // which member of the family that is, on each draw
	Ablate    [][]float64  // G99 by variant and workload
	InFlight  [][]Flown    // by maker and workload
	Scenes    [][]Seen     // by family and scene
	Isolation [][]Seen     // by variant and scene, of the scenes of isolation
	Curves    [][]Curve    // by family and workload, of the first draw

	Hindsight []Hindsight // by workload
	Shifts    [][]Told    // by shift and way
}

// Curve is the share on time at each load of the study.
type Curve []float64

// Run carries the study out.
func (s *Study) Run() (*Findings, error) {
	f := &Findings{
		Study: s, G99: grid[float64](len(s.Families), len(s.Workloads)),
		Tuned:  grid[[]string](len(s.Families), len(s.Workloads)),
		Ablate: grid[float64](len(s.Variants), len(s.Workloads)), Scenes: grid[Seen](len(s.Families), len(s.Scenes)),
		Isolation: grid[Seen](len(s.Variants), len(s.Scenes)),
		InFlight:  grid[Flown](len(s.InFlight), len(s.Workloads)),
		Curves:    grid[Curve](len(s.Families), len(s.Workloads)),
	}
	most := 0
	for _, shift := range s.Shifts {
		f.Shifts = append(f.Shifts, make([]Told, len(shift.Ways)))
		most = max(most, len(shift.Ways))
	}
	if s.Hindsight {
		f.Hindsight = make([]Hindsight, len(s.Workloads))
	}
	err := errors.Join(
		s.each(len(s.Families), len(s.Workloads), f.search),
		s.each(len(s.Variants), len(s.Workloads), f.ablate),
		s.each(len(s.InFlight), len(s.Workloads), f.fly),
		s.each(len(s.Families), len(s.Scenes), f.watch),
		s.each(len(s.Variants), len(s.Scenes), f.isolate),
		s.each(1, len(f.Hindsight), f.hindsight),
		s.each(most, len(s.Shifts), f.shift),
	)
	if err != nil || len(s.Loads) == 0 {
		return f, err
	}
	return f, s.each(1, len(s.Workloads), f.curves)
}

func (f *Findings) search(i, j int) error {
	s := f.Study
	g, tuned, err := FamilyG99(&s.Workloads[j], &s.Families[i], s.effort(j))
	if err != nil {
		return fmt.Errorf("%s on %s: %w", s.Families[i].Name, s.Workloads[j].Name, err)
	}
	f.G99[i][j], f.Tuned[i][j] = g, tuned
	s.progress("g99 of %s on %s: %.2f (%s)", s.Families[i].Name, s.Workloads[j].Name, g, settings(tuned))
	return nil
}

func (f *Findings) ablate(i, j int) error {
	s := f.Study
	g, err := G99(&s.Workloads[j], &s.Variants[i], s.effort(j))
	if err != nil {
		return fmt.Errorf("%s on %s: %w", s.Variants[i].Name, s.Workloads[j].Name, err)
	}
	f.Ablate[i][j] = g
	s.progress("g99 of %s on %s: %.2f", s.Variants[i].Name, s.Workloads[j].Name, g)
	return nil
}

// isolate plays a scene of isolation with a variant.
func (f *Findings) isolate(i, j int) error {
	scene, v := &f.Study.Scenes[j], &f.Study.Variants[i]
	if !scene.Isolation {
		return nil
	}
	seen, err := scene.Play(v, f.Study.Effort)
	if err != nil {
		return fmt.Errorf("%s in %s: %w", v.Name, scene.Name, err)
	}
	f.Isolation[i][j] = seen
	f.Study.progress("%s in %s: %.3f", v.Name, scene.Name, seen.Watched)
	return nil
}

// watch plays a scene with the member of a family that did best in training.
func (f *Findings) watch(i, j int) error {
	s := f.Study
	who, err := tuneScene(&s.Scenes[j], &s.Families[i], s.Effort)
	if err == nil {
		f.Scenes[i][j], err = s.Scenes[j].Play(who, s.Effort)
	}
	if err != nil {
		return fmt.Errorf("%s in %s: %w", s.Families[i].Name, s.Scenes[j].Name, err)
	}
	s.progress("%s in %s: %s", s.Families[i].Name, s.Scenes[j].Name, &f.Scenes[i][j])
	return nil
}

// shift plays a shift in one of its ways.
func (f *Findings) shift(i, j int) error {
	shift := &f.Study.Shifts[j]
	if i >= len(shift.Ways) {
		return nil
	}
	told, err := shift.Play(&shift.Ways[i], f.Study.Effort)
	if err != nil {
		return fmt.Errorf("%s, %s: %w", shift.Name, shift.Ways[i].Name, err)
	}
	f.Shifts[j][i] = told
	f.Study.progress("%s, %s: %.3f on time", shift.Name, shift.Ways[i].Name, 1-told.Missed)
	return nil
}

// curves uses the members of the families that were chosen for the first draw.
func (f *Findings) curves(_, j int) error {
	s := f.Study
	t := newTrial(&s.Workloads[j], s.effort(j))
	for _, load := range s.Loads {
		for i := range s.Families {
			m := s.Families[i].member(f.Tuned[i][j][0])
			share, err := t.onTime(m, load)
			if err != nil {
				return fmt.Errorf("%s on %s: %w", m.Name, s.Workloads[j].Name, err)
			}
			f.Curves[i][j] = append(f.Curves[i][j], share)
		}
	}
	return nil
}

// effort returns the effort for each draw of a workload's models. A workload that is not drawn gets as many runs as one
// that is drawn three times.
func (s *Study) effort(workload int) Effort {
	e := s.Effort
	if len(s.Workloads[workload].Again) == 0 {
		e.Seeds *= timesDrawn
	}
	return e
}

func (s *Study) progress(format string, args ...any) {
	if s.Progress != nil {
		s.Progress(fmt.Sprintf(format, args...))
	}
}

// each does a thing for every place of a grid, several at a time. Every result has a place of its own, so that the
// outcome does not depend on their order.
func (s *Study) each(rows, columns int, do func(i, j int) error) error {
	faults := make([]error, rows*columns)
	work := make(chan int)
	var wg sync.WaitGroup
	for range max(s.Workers, 1) {
		wg.Go(func() {
			for at := range work {
				faults[at] = do(at/columns, at%columns)
			}
		})
	}
	for at := range faults {
		work <- at
	}
	close(work)
	wg.Wait()
	return errors.Join(faults...)
}

func grid[T any](rows, columns int) [][]T {
	g := make([][]T, rows)
	for i := range g {
		g[i] = make([]T, columns)
	}
	return g
}
