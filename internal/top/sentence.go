package top

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// recently is how far back the sentence looks, in milliseconds: long enough to have seen the trouble, short enough that
// it is about now.
const recently = 10_000

// sentence says which version uses a device most, and which was late or lost, with the cause. It is kept until the next
// update, since pictures come more often than updates.
func (h *history) sentence() string {
	if h.said == "" {
		h.said = h.most() + " " + h.wronged()
	}
	return h.said
}

// most says who uses the devices most.
func (h *history) most() string {
	var most *version
	for _, v := range h.versions {
		if most == nil || v.GetShare() > most.GetShare() {
			most = v
		}
	}
	if most == nil {
		return "No model is loaded."
	}
	// A share that percent shows as 0 % is none.
	if most.GetShare() < 0.0005 {
		return "Nobody uses the devices."
	}
	text := fmt.Sprintf("%s uses %s most: %s of its time", most.label, most.GetDevice(), percent(most.GetShare()))
	if most.GetEntitledShare() > 0 {
		text += ", entitled to " + percent(most.GetEntitledShare())
	}
	return text + "."
}

// trouble is what happened to requests for a version. Its times are sums over all late ones, in milliseconds.
type trouble struct {
	// Both count requests; a late one was answered, and a lost one was not.
	late, lost int
	reasons    map[string]int
	waited, total,
	own float64 // of late ones: until their first execution, until their answer, and held by their own version
	holders map[string]float64 // milliseconds for which others had the device while late ones waited, by label
}

// troubles finds what was late or lost in the last seconds, by the label of the version. A request that its caller
// cancelled is nobody's fault, and is not counted.
func (h *history) troubles() map[string]*trouble {
	all := map[string]*trouble{}
	for i := range slices.Backward(h.requests) {
		q := &h.requests[i]
		if q.End < h.GetNowMs()-recently { // as all before it
			break
		}
		if !q.late() && !q.lost() || q.How == weftv1.RequestEnd_REQUEST_END_CANCELLED {
			continue
		}
		// A request may be lost before a version was chosen for it.
		label := "no version"
		if q.of != nil {
			label = q.of.label
		}
		t := all[label]
		if t == nil {
			t = &trouble{reasons: map[string]int{}, holders: map[string]float64{}}
			all[label] = t
		}
		// What was lost has no end to compare with a target. Its reason says enough.
		if q.lost() {
			t.lost++
			t.reasons[q.Reason]++
			continue
		}
		t.late++
		h.blame(t, q)
	}
	return all
}

// blame adds which versions had the device while a request waited. Batches are ordered by their ends, so bisection
// finds the first that may have held it. No batch is expected to last more than a minute: the search ends at one that
// started after the wait and ended so much later. The request's own version counts separately, since waiting behind
// requests of the same version is another finding.
func (h *history) blame(t *trouble, q *request) {
	until := q.Until()
	t.waited += q.Waited()
	t.total += q.End - q.Arrival
	first, _ := slices.BinarySearchFunc(h.batches, q.Arrival, func(b batch, at float64) int {
		if b.end <= at {
			return -1
		}
		// It never returns 0: the search is for a border, and not for a batch.
		return 1
	})
	for _, b := range h.batches[first:] {
		if b.start > until && b.end > until+minute {
			break
		}
		// Only the device of its version can have kept a request waiting.
		if q.of == nil || b.of.GetDevice() != q.of.GetDevice() {
			continue
		}
		if held := min(b.end, until) - max(b.start, q.Arrival); held > 0 {
			if b.of == q.of {
				t.own += held
			} else {
				t.holders[b.of.label] += held
			}
		}
	}
}

// wronged says which versions had most late and most lost requests in the last seconds, and the cause. Of equal ones it
// names the first by label, so that the sentence does not change with the order of a map.
func (h *history) wronged() string {
	all := h.troubles()
	worst := func(of func(*trouble) int) (label string) {
		for _, l := range slices.Sorted(maps.Keys(all)) {
			if of(all[l]) > 0 && (label == "" || of(all[l]) > of(all[label])) {
				label = l
			}
		}
		return label
	}
	var said []string
	late := worst(func(t *trouble) int { return t.late })
	if late != "" {
		t := all[late]
		said = append(said, fmt.Sprintf("%s of %s in the last %d s %s late: %s.", counted(t.late, "request"), late,
			recently/1000, was(t.late), t.because()))
	}
	if label := worst(func(t *trouble) int { return t.lost }); label != "" {
		t := all[label]
		said = append(said, fmt.Sprintf("%s of %s %s lost: %s.", counted(t.lost, "request"), label, was(t.lost),
			mostly(t.reasons)))
	}
	if len(said) == 0 {
		return fmt.Sprintf("Nobody was late or refused in the last %d s.", recently/1000)
	}
	return strings.Join(said, " ")
}

// because says what made requests late, on average over all late ones of a version. If they spent more than half of
// their time in their own execution, that is the cause. Otherwise it is the version that held the device for longest
// while they waited, which may be their own.
func (t *trouble) because() string {
	n, each, its := float64(t.late), "each", "their"
	if t.late == 1 {
		each, its = "it", "its"
	}
	if t.waited < t.total/2 {
		return fmt.Sprintf("%s own execution took %s of %s", its, ms((t.total-t.waited)/n), ms(t.total/n))
	}
	holder, held := "", t.own
	for _, label := range slices.Sorted(maps.Keys(t.holders)) {
		if t.holders[label] > held {
			holder, held = label, t.holders[label]
		}
	}
	switch {
	case holder != "":
		return fmt.Sprintf("%s had the device for %s of the %s that %s waited", holder, ms(held/n), ms(t.waited/n), each)
	case held > 0:
		return fmt.Sprintf("others of the same version had the device for %s of the %s that %s waited", ms(held/n),
			ms(t.waited/n), each)
	default:
		return fmt.Sprintf("%s waited for %s", each, ms(t.waited/n))
	}
}

// mostly returns the most frequent reason, and says so if there are others.
func mostly(reasons map[string]int) string {
	most := ""
	for _, r := range slices.Sorted(maps.Keys(reasons)) {
		if most == "" || reasons[r] > reasons[most] {
			most = r
		}
	}
	if len(reasons) > 1 {
		return "mostly " + most
	}
	return most
}

func was(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
