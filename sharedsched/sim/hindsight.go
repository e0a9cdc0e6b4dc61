package sim

import (
	"fmt"
	"time"
)

// Hindsight compares a policy with the best that a search finds if all arrivals and true costs are known in advance:
// G99 on the same requests of the first draw, in units of the fluid capacity.
type Hindsight struct {
	Workload string
	Ours     float64
	Search   float64 // a search that knows the future: at least that much can be carried
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
	search, _ := bracket(func(load float64) (bool, error) { // which has no errors
		return hindsightShare(w, load) >= attained, nil
	}, max(ours, lowest), 1.1, hindsightEffort.Precision)
	f.Hindsight[j] = Hindsight{w.Name, ours, search}
	s.progress("with hindsight %s carries %.2f; %s %.2f", w.Name, search, s.Families[0].Name, ours)
	return nil
}

// hindsightShare returns the share of requests that the search has on time.
func hindsightShare(w *Workload, load float64) float64 {
	requests := w.Requests(load, hindsightEffort.Span, 1)
	all := make([]*Request, len(requests))
	for i := range requests {
		all[i] = &requests[i]
	}
	return float64(Clairvoyant(w.Models, all, hindsightWidth)) / float64(max(len(all), 1))
}
