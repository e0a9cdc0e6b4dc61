package top

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weftserve/weft/internal/ask"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// Bounds of what is remembered. A minute of a busy server is more than that: the oldest go first.
const (
	maxBatches  = 1 << 14
	maxRequests = 1 << 14
	maxSamples  = 1 << 8 // of how many wait: for a minute
	// minute is how far back the first answer of a server is to reach, in milliseconds.
	minute = 60_000
)

// Bits of BatchColumns.flags.
const (
	flagMissed = 1
	flagFailed = 2
)

// version is a version on a device, as the latest update that named it has it. The same version on two devices is two
// of them. Its letter and color do not change while it is shown.
type version struct {
	label  string // "walk v3"
	letter rune
	color  color
	*weftv1.VersionActivity
}

// batch is an execution. Times are milliseconds since the run began; rows are what was asked for, and size is what was
// executed with padding. The end of a batch that still runs is the time of the latest update.
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
	ask.Request

	// of is the version that the request was for, as the history knew it when the request ended.
	of *version // nil: it came to none
}

// lost reports that the caller got no answer: the ends after LATE are refusals, failures and the like.
func (q *request) lost() bool { return q.How > weftv1.RequestEnd_REQUEST_END_LATE }
func (q *request) late() bool { return q.How == weftv1.RequestEnd_REQUEST_END_LATE }

// sample is how many requests of each version waited at some time.
type sample struct {
	at      float64
	waiting map[*version]uint32
}

// history is what is known of a server, within the bounds above. It is changed by add only, which must not run while it
// is read: the screen does both in one goroutine.
type history struct {
	*weftv1.Activity // the latest; nil until there is one

	// versions have the order of the latest update.
	versions []*version
	batches  []batch   // by their end
	running  []batch   // that have not ended
	requests []request // by their end
	samples  []sample
	restarts int
	said     string // the sentence, once it was asked for
}

// add takes in an update of the server. A server that was started again counts its milliseconds anew, so that nothing
// of the run before can be drawn beside it. A connection that was lost and is there again begins with a minute of the
// past, which overlaps with what is known: what ended before is left out, or it would be drawn and counted twice.
func (h *history) add(a *weftv1.Activity) {
	known := 0.0 // what ended until then is known, if the caller's connection is a new one
	switch {
	case h.Activity == nil:
	case a.GetRun() != h.GetRun():
		*h = history{restarts: h.restarts + 1}
	// The first update of a new connection to the same run reaches back over what is known.
	case a.GetFromMs() < h.GetNowMs():
		known = h.GetNowMs()
	}
	h.Activity, h.said = a, ""
	h.takeVersions(a.GetVersions())
	h.takeBatches(a, known)
	columns := slices.DeleteFunc(requestsOf(a.GetRequests(), h.versions), func(q request) bool { return q.End <= known })
	h.requests = bounded(append(h.requests, columns...), maxRequests)
	// A request shows its wait only when it ends. Samples show the waits of all others.
	waiting := map[*version]uint32{}
	for _, v := range h.versions {
		waiting[v] = v.GetWaiting()
	}
	h.samples = bounded(append(h.samples, sample{a.GetNowMs(), waiting}), maxSamples)
}

// takeVersions replaces the versions by those of an update. A version that was there before keeps its letter: nobody
// could follow one that changed with each update. It keeps its pointer too, since batches, requests and samples of the
// past refer to it. The list has the order of the update, because batches name versions by their place in it.
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
		// Only letters of versions that are still shown are taken.
		if at := slices.IndexFunc(old, same(v)); at >= 0 {
			h.versions[i] = old[at]
			h.versions[i].VersionActivity = v
			used[old[at].letter] = true
		}
	}
	// New versions come second: the letters of all others must be known before one is chosen.
	for i, v := range now {
		if h.versions[i] != nil {
			continue
		}
		label := ask.Label(v.GetModel(), v.GetVersion())
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

// takeBatches adds the batches that ended, which a server lists by their ends, and replaces the running ones. Batches
// that ended until known are there already. A running batch is drawn until now, since its end is not known.
func (h *history) takeBatches(a *weftv1.Activity, known float64) {
	c := a.GetBatches()
	for i, number := range c.GetNumber() {
		of := ask.At(h.versions, ask.At(c.GetVersion(), i))
		// A batch of a version that the update does not list cannot be drawn.
		if of == nil {
			continue
		}
		start := ask.At(c.GetStartMs(), i)
		end := start + float64(ask.At(c.GetDurationMs(), i))
		// It was there in an update before the connection broke.
		if end <= known {
			continue
		}
		h.batches = append(h.batches, batch{
			number: number, of: of, lane: ask.At(c.GetLane(), i), start: start, end: end,
			rows: ask.At(c.GetRows(), i), size: ask.At(c.GetSize(), i), flags: ask.At(c.GetFlags(), i),
		})
	}
	h.batches = bounded(h.batches, maxBatches)
	// An update lists all running batches, so that the earlier ones have ended or are in it again.
	h.running = h.running[:0]
	for _, r := range a.GetRunning() {
		if of := ask.At(h.versions, r.GetVersion()); of != nil {
			h.running = append(h.running, batch{
				number: r.GetNumber(), of: of, lane: r.GetLane(), start: r.GetStartMs(), end: max(h.GetNowMs(), r.GetStartMs()),
				rows: r.GetRows(), size: r.GetSize(),
			})
		}
	}
}

// requestsOf reads the columns of requests, and finds the version that each names by its place in a list.
func requestsOf(c *weftv1.RequestColumns, versions []*version) []request {
	all := make([]request, 0, len(c.GetNumber()))
	for _, q := range ask.Requests(c) {
		all = append(all, request{q, ask.At(versions, q.Place)})
	}
	return all
}

// bounded returns the last n of a list, or all.
func bounded[T any](list []T, n int) []T {
	if over := len(list) - n; over > 0 {
		return slices.Delete(list, 0, over)
	}
	return list
}
