package sim

import (
	"fmt"
	"time"
)

// Hindsight compares a policy with what is possible if all arrivals and true costs are known in advance: G99 on the same
// requests of the first draw, in units of the fluid capacity.
type Hindsight struct {
	Workload string
	Ours     float64
	Search   float64 // a search that knows the future: so much can be carried at least
	Bound    float64 // no schedule that runs one batch at a time carries more
}

// hindsightEffort is less than a study's: the search takes far longer than any policy.
var hindsightEffort = Effort{Span: 5 * time.Second, Seeds: 1, Precision: 0.02}

// hindsightWidth is how many states the search keeps.
const hindsightWidth = 8

// hindsight fills in the table of one workload.
func (f *Findings) hindsight(_, j int) error {
	s := f.Study
	w := &s.Workloads[j].draws()[0]
	ours, _, err := FamilyG99(w, &s.Families[0], hindsightEffort)
	if err != nil {
		return fmt.Errorf("%s on %s: %w", s.Families[0].Name, w.Name, err)
	}
	oracle := func(onTime func([]Model, []*Request) int) float64 {
		load, _ := bracket(func(load float64) (bool, error) { // which has no errors
			return hindsightShare(w, load, onTime) >= attained, nil
		}, max(ours, lowest), 1.1, hindsightEffort.Precision)
		return load
	}
	f.Hindsight[j] = Hindsight{w.Name, ours, oracle(clairvoyant), oracle(UpperBound)}
	s.progress("with hindsight %s carries %.2f, at most %.2f; %s %.2f",
		w.Name, f.Hindsight[j].Search, f.Hindsight[j].Bound, s.Families[0].Name, ours)
	return nil
}

func clairvoyant(models []Model, requests []*Request) int {
	return Clairvoyant(models, requests, hindsightWidth)
}

// hindsightShare returns the share of requests that an oracle has on time.
func hindsightShare(w *Workload, load float64, onTime func([]Model, []*Request) int) float64 {
	requests := w.Requests(load, hindsightEffort.Span, 1)
	all := make([]*Request, len(requests))
	for i := range requests {
		all[i] = &requests[i]
	}
	return float64(onTime(w.Models, all)) / float64(max(len(all), 1))
}
