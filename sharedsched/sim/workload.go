package sim

import (
	"cmp"
	"slices"
	"time"
)

// Workload is models, how their requests arrive, and the device they share.
type Workload struct {
	Name, About string
	Models      []Model   // Rate is at load 1
	Again       [][]Model // the same kind of models drawn again; see draws
	Arrivals    []Process // by model; a single one is for all
	Error       []float64 // see Env
	Device      Device
	Pace        func(span time.Duration) []Pace // how the device's speed changes; nil: it does not
	Further     bool                            // not of those that the comparison is decided on
}

// draws returns the workload with each of its sets of models. What a policy carries with models that were drawn at random depends
// on the draw more than on the arrivals, so that a single one would say little.
func (w *Workload) draws() []Workload {
	first := *w
	first.Again = nil
	all := []Workload{first}
	for _, models := range w.Again {
		next := first
		next.Models = models
		all = append(all, next)
	}
	return all
}

// Requests returns the requests of a run in order of arrival. The same seed gives the same pattern at every load, only denser,
// and the same for every policy, so that comparisons are paired.
func (w *Workload) Requests(load float64, span time.Duration, seed uint64) []Request {
	type arrival struct {
		at         Time
		model, key int32
	}
	var all []arrival
	var times []Time
	for i := range w.Models {
		m := &w.Models[i]
		p := w.process(i)
		purpose := uint64(i)*3 + 2
		var course []Stretch
		if p.Course != nil {
			group := purpose
			if p.Together {
				group = 2
			}
			course = p.Course(stream(seed, group), span)
		}
		times = p.times(m.Rate*load, span, stream(seed, purpose+1), course, times[:0])
		keys := stream(seed, purpose+2)
		for _, at := range times {
			key := 0
			if m.Keys > 1 {
				key = keys.IntN(m.Keys)
			}
			all = append(all, arrival{at, int32(i), int32(key)})
		}
	}
	slices.SortFunc(all, func(a, b arrival) int {
		if a.at != b.at {
			return cmp.Compare(a.at, b.at)
		}
		return cmp.Compare(a.model, b.model)
	})
	requests := make([]Request, len(all))
	for i, a := range all {
		m := &w.Models[a.model]
		requests[i] = Request{
			Model: int(a.model), Key: int(a.key), Rows: 1, Arrival: a.at, Deadline: a.at.Add(m.SLO), Background: m.Background,
		}
	}
	return requests
}

func (w *Workload) process(model int) *Process {
	if len(w.Arrivals) == 1 {
		return &w.Arrivals[0]
	}
	return &w.Arrivals[model]
}

// Play runs the workload under a policy.
func (w *Workload) Play(p *Maker, load float64, span time.Duration, seed uint64, detail bool) (*Result, error) {
	s := Setup{
		Models: w.Models, Error: w.Error, Device: w.Device, Lanes: p.lanes(len(w.Models)), Overlap: p.Overlap,
		Seed: seed, Detail: detail,
	}
	if w.Pace != nil {
		s.Device.Pace = w.Pace(span)
	}
	return Run(&s, w.Requests(load, span, seed), p.New)
}
