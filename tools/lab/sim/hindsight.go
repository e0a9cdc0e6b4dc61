package sim

import (
	"fmt"
	"time"
)

// Hindsight compares a policy with the best that a search finds if all arrivals and true costs are known in advance:
// G99 on the same requests of the first draw, in units of the fluid capacity.
type Hindsight struct {
	Ours   float64
	Search float64 // at least that much can be carried
}

func (h Hindsight) String() string { return fmt.Sprintf("%.2f, with hindsight %.2f", h.Ours, h.Search) }

// hindsightEffort is less than a study's: the search takes far longer than any policy.
var hindsightEffort = Effort{Span: 5 * time.Second, Seeds: 1, Precision: 0.02}

// hindsightWidth is how many states the search keeps.
const hindsightWidth = 8

// foresee compares a family with the search on a workload.
func foresee(w *Workload, f *Family) Hindsight {
	w = &w.draws()[0]
	ours, _ := G99(w, f, hindsightEffort)
	search := bracket(func(load float64) bool {
		requests := w.Requests(load, hindsightEffort.Span, 1)
		onTime := Clairvoyant(w.Models, requests, hindsightWidth)
		return float64(onTime)/float64(max(len(requests), 1)) >= attained
	}, max(ours, lowest), 1.1, hindsightEffort.Precision)
	return Hindsight{ours, search}
}
