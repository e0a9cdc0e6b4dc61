package sim

import (
	"fmt"
	"math/bits"
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
	Further     bool                            // not one that the comparison is decided on
}

// draws returns the workload with each of its sets of models. The load that a policy carries with models that were
// drawn at random depends on the draw more than on the arrivals, so that a single draw would say little.
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

// Requests returns the requests of a run in order of arrival. The same seed gives the same pattern at every load, only
// denser, and the same for every policy, so that comparisons are paired.
func (w *Workload) Requests(load float64, span time.Duration, seed uint64) []Request {
	// An arrival is its time and, in the lowest bits, its model: one number, since to sort is much of the work.
	width := bits.Len(uint(len(w.Models)))
	var all []uint64
	var times []time.Duration
	kinds := make([][]kind, len(w.Models)) // of the models that have several, in order of arrival
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
		times = p.times(m.Rate*load, m.SLO, course, span, stream(seed, purpose+1), times[:0])
		for _, at := range times {
			all = append(all, uint64(at)<<width|uint64(i))
		}
		if m.Keys > 1 || len(m.Mix) > 0 || len(m.Identities) > 0 {
			draw := stream(seed, purpose+2)
			for range times {
				k := kind{}
				if m.Keys > 1 {
					k.key = draw.IntN(m.Keys)
				}
				k.wish, k.identity = m.wish(draw), m.identity(draw)
				kinds[i] = append(kinds[i], k)
			}
		}
	}
	slices.Sort(all)
	requests := make([]Request, len(all))
	for i, a := range all {
		model := int(a & (1<<width - 1))
		at, k := Time(a>>width), kind{wish: Wish{SLO: w.Models[model].SLO}}
		if waiting := kinds[model]; len(waiting) > 0 {
			k, kinds[model] = waiting[0], waiting[1:]
		}
		requests[i] = Request{
			Model: model, Key: k.key, Identity: k.identity, Rows: 1,
			Arrival: at, Deadline: at.Add(k.wish.SLO), Priority: k.wish.Priority, Think: w.process(model).Think,
		}
	}
	return requests
}

// kind is the kind of a request: its shape, who it is of, and what that wants.
type kind struct {
	key, identity int
	wish          Wish
}

func (w *Workload) process(model int) *Process {
	if len(w.Arrivals) == 1 {
		return &w.Arrivals[0]
	}
	return &w.Arrivals[model]
}

// waits reports whether some callers wait for answers before they ask again.
func (w *Workload) waits() bool {
	return slices.ContainsFunc(w.Arrivals, func(p Process) bool { return p.Think > 0 })
}

// Play runs the workload under a policy, as run does.
func (w *Workload) Play(p *Maker, load float64, span time.Duration, seed uint64) *Result {
	return w.run(p, w.Requests(load, span, seed), span, seed, nil)
}

// run plays requests of the workload, until more than lost of them are, if that is given. It panics if the policy
// breaks its contract: no figure of it means anything.
func (w *Workload) run(p *Maker, requests []Request, span time.Duration, seed uint64, lost *int) *Result {
	s := Setup{
		Models: w.Models, Error: w.Error, Device: w.Device, Lanes: p.lanes(len(w.Models)), Overlap: p.Overlap,
		Copying: p.Copying, Telemetry: p.Telemetry, Seed: seed, Lost: lost, Span: span,
	}
	if w.Pace != nil {
		s.Device.Pace = w.Pace(span)
	}
	r, err := Run(&s, requests, p.New)
	if err != nil {
		panic(fmt.Sprintf("%s on %s: %v", p.Name, w.Name, err))
	}
	return r
}
