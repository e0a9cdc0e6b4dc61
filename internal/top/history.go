package top

import (
	"fmt"
	"slices"
	"strings"
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// Bounds of what is remembered.
const (
	maxBatches  = 1 << 14
	maxRequests = 1 << 14
	// minute is how far back counts of late and lost requests reach, in milliseconds.
	minute = 60_000
	// maxSteps are the totals that are kept of the last minute: one a second.
	maxSteps = 64
)

// Bits of BatchColumns.flags.
const (
	flagMissed     = 1
	flagFailed     = 2
	flagBackground = 4
)

// version is a version on a device.
type version struct {
	label  string // "walk v3"
	letter rune
	color  color
	*weftv1.VersionActivity
}

func (v *version) lost() float64 {
	sum := 0.0
	for _, n := range v.GetTotals().GetLost() {
		sum += n
	}
	return sum
}

// batch is an execution. Times are milliseconds since the run began.
type batch struct {
	number     uint32
	of         *version
	lane       uint32
	start, end float64
	rows, size uint32
	flags      uint32
}

// request is one that ended.
type request struct {
	number uint32
	id     string
	of     *version // nil: it came to none
	// started is 0 where no execution did.
	arrival, started, end float64
	how                   weftv1.RequestEnd
	reason                string
}

func (q *request) lost() bool { return q.how > weftv1.RequestEnd_REQUEST_END_LATE }
func (q *request) late() bool { return q.how == weftv1.RequestEnd_REQUEST_END_LATE }

// tally is how many were late and lost.
type tally struct{ late, lost float64 }

// step is the totals at some time.
type step struct {
	at     float64
	totals map[*version]tally
	// waiting is how many waited then.
	waiting map[*version]uint32
}

// history is what is known of a server. It is bounded.
type history struct {
	run      string
	began    time.Time
	now      float64
	window   float64
	devices  []*weftv1.DeviceActivity
	versions []*version
	models   map[string]*weftv1.RequestTotals
	wrongs   uint32 // late or lost in the last minute, in all, when the connection began

	batches  []batch                // by their end
	running  []batch                // that have not ended
	requests []request              // by their end
	steps    []step                 // one a second
	samples  []step                 // all of late, for the number of those that wait
	before   map[*version][]request // late or lost ones that ended before the first step
	restarts int
	said     string // the sentence, once it was asked for
}

// add takes in what happened. Recent may be nil.
func (h *history) add(a *weftv1.Activity, recent *weftv1.ListRequestsResponse) {
	if a.GetRun() != h.run {
		restarts := h.restarts
		if h.run != "" {
			restarts++
		}
		*h = history{run: a.GetRun(), began: a.GetBegan().AsTime(), restarts: restarts}
	}
	known := 0.0 // what ended until then is known, if the caller's connection is a new one
	if a.GetRun() == h.run && a.GetFromMs() < h.now {
		known = h.now
	}
	h.now, h.window, h.devices, h.models = a.GetNowMs(), a.GetWindowMs(), a.GetDevices(), a.GetTotals()
	h.said = ""
	h.takeVersions(a.GetVersions())
	h.takeBatches(a, known)
	columns := slices.DeleteFunc(requestsOf(a.GetRequests(), h.versions), func(q request) bool { return q.end <= known })
	h.requests = bounded(append(h.requests, columns...), maxRequests)
	h.takeTotals(columns, recent)
}

// takeVersions keeps the letters of the versions that were there before.
func (h *history) takeVersions(now []*weftv1.VersionActivity) {
	old := h.versions
	used := map[rune]bool{}
	same := func(v *weftv1.VersionActivity) func(*version) bool {
		return func(o *version) bool {
			return o.GetModel() == v.GetModel() && o.GetVersion() == v.GetVersion() && o.GetDevice() == v.GetDevice()
		}
	}
	h.versions = make([]*version, len(now))
	for i, v := range now {
		if at := slices.IndexFunc(old, same(v)); at >= 0 {
			h.versions[i] = old[at]
			h.versions[i].VersionActivity = v
			used[old[at].letter] = true
		}
	}
	for i, v := range now {
		if h.versions[i] != nil {
			continue
		}
		label := labelOf(v.GetModel(), v.GetVersion())
		letter := rune(nameless)
		if at := strings.IndexFunc(letters, func(r rune) bool { return !used[r] }); at >= 0 {
			letter = rune(letters[at])
		}
		used[letter] = true
		h.versions[i] = &version{label, letter, colorOf(label), v}
	}
}

// short is the label in so many columns; its version is always there.
func (v *version) short(columns int) string {
	name, number := []rune(v.GetModel()), fmt.Sprintf(" v%d", v.GetVersion())
	if over := len(name) + len(number) - columns; over > 0 {
		name = append(name[:max(0, len(name)-over-1)], '…')
	}
	return string(name) + number
}

func labelOf(model string, number int32) string { return fmt.Sprintf("%s v%d", model, number) }

func (h *history) takeBatches(a *weftv1.Activity, known float64) {
	c := a.GetBatches()
	for i, number := range c.GetNumber() {
		of := at(h.versions, at(c.GetVersion(), i))
		if of == nil {
			continue
		}
		start := at(c.GetStartMs(), i)
		end := start + float64(at(c.GetDurationMs(), i))
		if end <= known {
			continue
		}
		h.batches = append(h.batches, batch{
			number: number, of: of, lane: at(c.GetLane(), i), start: start, end: end,
			rows: at(c.GetRows(), i), size: at(c.GetSize(), i), flags: at(c.GetFlags(), i),
		})
	}
	h.batches = bounded(h.batches, maxBatches)
	h.running = h.running[:0]
	for _, r := range a.GetRunning() {
		if of := at(h.versions, r.GetVersion()); of != nil {
			h.running = append(h.running, batch{
				number: r.GetNumber(), of: of, lane: r.GetLane(), start: r.GetStartMs(), end: max(h.now, r.GetStartMs()),
				rows: r.GetRows(), size: r.GetSize(),
			})
		}
	}
}

func requestsOf(c *weftv1.RequestColumns, versions []*version) []request {
	all := make([]request, 0, len(c.GetNumber()))
	for i, number := range c.GetNumber() {
		q := request{
			number: number, id: at(c.GetId(), i), arrival: at(c.GetArrivalMs(), i), started: at(c.GetStartMs(), i),
			end: at(c.GetEndMs(), i), how: weftv1.RequestEnd(at(c.GetEnd(), i)), reason: at(c.GetReason(), i),
		}
		if place := at(c.GetVersion(), i); place > 0 {
			q.of = at(versions, place-1)
		}
		all = append(all, q)
	}
	return all
}

// takeTotals keeps what is needed to say how many were late or lost in the last minute: totals of each second, and,
// from before there were any, the requests themselves.
func (h *history) takeTotals(columns []request, recent *weftv1.ListRequestsResponse) {
	s := step{h.now, map[*version]tally{}, map[*version]uint32{}}
	for _, v := range h.versions {
		s.totals[v] = tally{v.GetTotals().GetLate(), v.lost()}
		s.waiting[v] = v.GetWaiting()
	}
	h.samples = bounded(append(h.samples, s), 4*maxSteps)
	if recent != nil {
		h.wrongs = recent.GetInLastMinute()
	}
	if h.before == nil {
		listed := requestsOf(recent.GetRequests(), h.place(recent.GetVersions()))
		known := map[uint32]bool{}
		for _, q := range listed {
			known[q.number] = true
		}
		for _, q := range columns { // either may hold some that the other had no room for
			if !known[q.number] {
				listed = append(listed, q)
			}
		}
		h.before = map[*version][]request{}
		for _, q := range listed {
			if q.of != nil && (q.late() || q.lost()) && q.end >= h.now-minute {
				h.before[q.of] = append(h.before[q.of], q)
			}
		}
	}
	if n := len(h.steps); n == 0 || s.at-h.steps[n-1].at >= 1000 {
		h.steps = bounded(append(h.steps, s), maxSteps)
	}
}

// place returns the known versions for those of another answer, nil for one that is not known.
func (h *history) place(of []*weftv1.VersionActivity) []*version {
	all := make([]*version, len(of))
	for i, v := range of {
		for _, known := range h.versions {
			if known.GetModel() == v.GetModel() && known.GetVersion() == v.GetVersion() && known.GetDevice() == v.GetDevice() {
				all[i] = known
			}
		}
	}
	return all
}

// lastMinute returns how many requests of a version were late and lost in the last minute.
func (h *history) lastMinute(v *version) tally {
	from := h.now - minute
	first := step{}
	for _, s := range h.steps {
		if _, is := s.totals[v]; is {
			first = s
			if s.at >= from {
				break
			}
		}
	}
	sum := tally{v.GetTotals().GetLate() - first.totals[v].late, v.lost() - first.totals[v].lost}
	for _, q := range h.before[v] {
		switch {
		case q.end < from:
		case q.late():
			sum.late++
		default:
			sum.lost++
		}
	}
	return sum
}

// at returns a member of a list, or nothing where there is none: the columns of a server may differ in length.
func at[T any, N int | uint32](list []T, i N) T {
	if int(i) < len(list) {
		return list[i]
	}
	var none T
	return none
}

// bounded returns the last n of a list, or all.
func bounded[T any](list []T, n int) []T {
	if over := len(list) - n; over > 0 {
		return slices.Delete(list, 0, over)
	}
	return list
}

// clone returns a history that stays as it is, with versions of its own.
func (h *history) clone() *history {
	c := *h
	copies := map[*version]*version{nil: nil}
	its := func(v *version) *version {
		if _, is := copies[v]; !is {
			copied := *v
			copies[v] = &copied
		}
		return copies[v]
	}
	c.versions = slices.Clone(h.versions)
	for i, v := range c.versions {
		c.versions[i] = its(v)
	}
	c.batches, c.running, c.requests = slices.Clone(h.batches), slices.Clone(h.running), slices.Clone(h.requests)
	for i := range c.batches {
		c.batches[i].of = its(c.batches[i].of)
	}
	for i := range c.running {
		c.running[i].of = its(c.running[i].of)
	}
	for i := range c.requests {
		c.requests[i].of = its(c.requests[i].of)
	}
	c.steps, c.samples = stepsOf(h.steps, its), stepsOf(h.samples, its)
	c.before = renamed(h.before, its)
	return &c
}

func stepsOf(steps []step, its func(*version) *version) []step {
	all := slices.Clone(steps)
	for i, s := range all {
		all[i].totals, all[i].waiting = renamed(s.totals, its), renamed(s.waiting, its)
	}
	return all
}

func renamed[T any](of map[*version]T, its func(*version) *version) map[*version]T {
	all := make(map[*version]T, len(of))
	for v, t := range of {
		all[its(v)] = t
	}
	return all
}
