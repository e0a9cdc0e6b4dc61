package top

import (
	"fmt"
	"math"
	"slices"
	"strings"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// The weave: time runs from left to right and ends now. A lane of a device is a strip whose filled part is the time in
// which it was busy, in the colors of the versions that had it. Below, for each version, how many of its requests
// waited, so that backlogs look like wedges below the batches that made them.

// spans are the windows of time that can be seen, in milliseconds.
var spans = []float64{250, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000}

const (
	usualSpan  = 2  // 1 s
	labelWidth = 13 // columns left of a strip
	maxLanes   = 64 // of a device, drawn or counted
)

// part is how long a version had a lane within a bin.
type part struct {
	of *version
	ms float64
}

// strip is a lane's time in bins of equal length. A bin has a part for each version that ran in it, at most one each.
type strip struct {
	parts [][]part
	marks []rune // '!' a request of a batch that ended there was late, 'x' the batch failed, else 0
}

// weave is what is seen of a history: so many bins that end now, one for each column. from is the start of the first
// and bin the length of each, in milliseconds.
type weave struct {
	*history
	from, bin float64
	bins      int
	letters   bool // letters instead of colors
}

// newWeave returns the weave of the time up to now: span milliseconds in so many bins.
func newWeave(h *history, now, span float64, bins int, letters bool) *weave {
	bin := span / float64(bins)
	to := math.Ceil(now/bin) * bin // so that a moment stays in its bin while it flows
	return &weave{h, to - bin*float64(bins), bin, bins, letters}
}

// place returns the bin of a moment. It is below 0 before the weave begins, and bins or more after it ends.
func (w *weave) place(at float64) int { return int(math.Floor((at - w.from) / w.bin)) }

// strips returns the lanes of all devices, by their numbers.
func (w *weave) strips() map[uint32]*strip {
	all := map[uint32]*strip{}
	for _, d := range w.GetDevices() {
		for lane := range min(d.GetLanes(), maxLanes) {
			all[d.GetFirstLane()+lane] = &strip{make([][]part, w.bins), make([]rune, w.bins)}
		}
	}
	for _, b := range w.running {
		w.strip(all, b)
	}
	// Batches are ordered by their ends, so that the search from the newest one may stop at the first that is too old.
	for _, b := range slices.Backward(w.batches) {
		if b.end < w.from { // as all before it
			break
		}
		w.strip(all, b)
	}
	return all
}

// strip adds a batch to its lane, to each bin by the time that it had there. The mark stands where the batch ended,
// since its requests were answered then; the mark of a failure replaces that of a miss.
func (w *weave) strip(all map[uint32]*strip, b batch) {
	s := all[b.lane]
	if s == nil {
		return
	}
	for i := max(0, w.place(b.start)); i < w.bins && w.from+float64(i)*w.bin < b.end; i++ {
		from := w.from + float64(i)*w.bin
		ms := min(b.end, from+w.bin) - max(b.start, from)
		s.share(i, b.of, ms)
	}
	if i := w.place(b.end); i >= 0 && i < w.bins {
		switch {
		case b.flags&flagFailed != 0:
			s.marks[i] = 'x'
		case b.flags&flagMissed != 0 && s.marks[i] == 0:
			s.marks[i] = '!'
		}
	}
}

// levels returns which version has each of n levels of a bin, from the bottom; nil is idle. The versions stand in the
// order of the server's list, so that a color does not jump up and down between neighboring bins. Sums are rounded
// rather than parts, so that a bin that was busy all the time is full, whatever its parts are.
func (w *weave) levels(parts []part, n int) []*version {
	levels := make([]*version, n)
	slices.SortFunc(parts, func(a, b part) int { return slices.Index(w.versions, a.of) - slices.Index(w.versions, b.of) })
	sum, done := 0.0, 0
	for _, p := range parts {
		sum += p.ms
		for end := min(n, int(math.Round(sum/w.bin*float64(n)))); done < end; done++ {
			levels[done] = p.of
		}
	}
	return levels
}

// drawLane draws a strip of a number of rows. Colors have two levels in a row, by half blocks; letters have one.
func (w *weave) drawLane(g *grid, x, y, height int, s *strip) {
	whole := make([]*version, w.bins) // who has all of a bin
	for i, parts := range s.parts {
		n := height
		if !w.letters {
			n *= 2
		}
		levels := w.levels(parts, n)
		if whole[i] = levels[0]; slices.ContainsFunc(levels, func(v *version) bool { return v != levels[0] }) {
			whole[i] = nil
		}
		// Rows count from the top of the screen, and levels from the bottom of the strip.
		for row := range height {
			at := y + height - 1 - row
			if w.letters {
				if v := levels[row]; v != nil {
					g.set(x+i, at, v.letter, normal)
				}
				continue
			}
			w.half(g, x+i, at, levels[2*row+1], levels[2*row])
		}
	}
	for i, v := range whole { // a letter where a run of two or more begins
		if w.letters || v == nil || i > 0 && whole[i-1] == v || i+1 >= w.bins || whole[i+1] != v {
			continue
		}
		g.set(x+i, y+height/2, v.letter, normal.in(ink(v.color)).on(v.color))
	}
}

// half draws a character whose upper and lower half belong to two versions; nil is idle.
func (*weave) half(g *grid, x, y int, upper, lower *version) {
	switch {
	case upper == nil && lower == nil:
	case upper == nil:
		g.set(x, y, '▄', normal.in(lower.color))
	case lower == nil:
		g.set(x, y, '▀', normal.in(upper.color))
	case upper == lower:
		g.set(x, y, '█', normal.in(lower.color))
	default:
		g.set(x, y, '▀', normal.in(upper.color).on(lower.color))
	}
}

// bars are the heights of a bar in one row. Each means twice as many as the one before, so that one waiting request and
// a hundred can both be seen.
const bars = "▁▂▃▄▅▆▇█"

// bar returns the bar for a number: 1 is the lowest, 128 or more the highest.
func bar(n float64) rune {
	return []rune(bars)[min(7, int(math.Log2(max(n, 1))))]
}

// drawQueue draws how many requests of a version waited, and where late ones (!) and lost ones (x) ended. How long a
// request waited is known only when it ends. What still waits is known by the samples of each update; the larger number
// counts. Where both marks fall into a bin the late one is shown, which has a batch above it to look at.
func (w *weave) drawQueue(g *grid, x, y int, v *version) {
	waited := make([]float64, w.bins)
	marks := make([]rune, w.bins)
	for i := range slices.Backward(w.requests) {
		q := &w.requests[i]
		if q.End < w.from { // as all before it
			break
		}
		if q.of != v {
			continue
		}
		until := q.Until()
		// A request waits over all bins from its arrival to its first execution.
		for at := max(0, w.place(q.Arrival)); at < w.bins && w.from+float64(at)*w.bin < until; at++ {
			from := w.from + float64(at)*w.bin
			// A request that waited for a part of the bin counts as that part: the sum is the average of the bin.
			waited[at] += (min(until, from+w.bin) - max(q.Arrival, from)) / w.bin
		}
		if at := w.place(q.End); at >= 0 && at < w.bins {
			switch {
			case q.lost() && marks[at] == 0:
				marks[at] = 'x'
			case q.late():
				marks[at] = '!'
			}
		}
	}
	for _, s := range w.samples { // requests that still wait have not ended
		if at := w.place(s.at); at >= 0 && at < w.bins {
			waited[at] = max(waited[at], float64(s.waiting[v]))
		}
	}
	for i, n := range waited {
		switch {
		case marks[i] != 0:
			g.set(x+i, y, marks[i], normal.in(red).strong())
		case n >= 0.5 && w.letters:
			g.set(x+i, y, bar(n), normal)
		case n >= 0.5:
			g.set(x+i, y, bar(n), normal.in(v.color))
		}
	}
}

// track is what is drawn of a device: strips, one below the other, each with its label.
type track struct {
	device *weftv1.DeviceActivity
	labels []string
	strips []*strip
}

// tracks returns those of all devices. Each has a strip for each lane. If they do not fit into the rows, it has one
// strip for the device, which is full where all of its lanes were busy.
func (w *weave) tracks(rows int) []track {
	strips := w.strips()
	var all []track
	for _, d := range w.GetDevices() {
		t := track{device: d}
		lanes := min(d.GetLanes(), maxLanes)
		// merged is drawn if not all lanes fit, and for a device with one lane, whose label then names no lane.
		merged := &strip{make([][]part, w.bins), make([]rune, w.bins)}
		for lane := range lanes {
			s := strips[d.GetFirstLane()+lane]
			merged.add(s, float64(lanes))
			if len(strips)+len(w.GetDevices()) <= rows {
				t.strips = append(t.strips, s)
				t.labels = append(t.labels, fmt.Sprintf("%s lane %d", d.GetName(), lane+1))
			}
		}
		if len(t.strips) <= 1 {
			t.strips, t.labels = []*strip{merged}, []string{d.GetName()}
		}
		all = append(all, t)
	}
	return all
}

// add merges another strip into this one, as one of `of` lanes: its times count as that part of theirs.
func (s *strip) add(o *strip, of float64) {
	for i, parts := range o.parts {
		for _, p := range parts {
			s.share(i, p.of, p.ms/of)
		}
		s.marks[i] = max(s.marks[i], o.marks[i]) // 'x' before '!'
	}
}

// share adds time of a version to a bin.
func (s *strip) share(bin int, of *version, ms float64) {
	at := slices.IndexFunc(s.parts[bin], func(p part) bool { return p.of == of })
	if at < 0 {
		s.parts[bin] = append(s.parts[bin], part{of, ms})
	} else {
		s.parts[bin][at].ms += ms
	}
}

// mostRows bounds the height of a strip: with half blocks, three rows tell six levels apart.
const mostRows = 3

// draw draws the weave into at most so many rows, and returns how many it took. Up to half of them are queues; the
// strips share the rest. A row for marks below each device comes before higher strips, and those grow to mostRows.
func (w *weave) draw(g *grid, top, height int, rows []*version) int {
	queues := min(len(rows), max(1, height/2-1))
	room := height - queues - 1
	tracks := w.tracks(room)
	strips := 0
	for _, t := range tracks {
		strips += len(t.strips)
	}
	foot := min(1, max(0, room-strips)/max(1, len(tracks))) // a row for marks below each device, if there is room
	each := 1
	for each < mostRows && strips*(each+1)+len(tracks)*foot <= room {
		each++
	}
	y, end := top, top+room
	for _, t := range tracks {
		// Devices that do not fit are left out: half a strip would be misread.
		if y+len(t.strips)*each+foot > end {
			break
		}
		y = w.drawTrack(g, y, each, foot, t)
	}
	for _, v := range rows[:queues] {
		g.set(0, y, v.letter, normal.in(ink(v.color)).on(v.color))
		g.text(2, y, labelWidth-3, v.short(labelWidth-3), normal)
		w.drawQueue(g, labelWidth, y, v)
		y++
	}
	w.drawAxis(g, labelWidth, y)
	return y + 1 - top
}

// drawTrack draws a device: each strip so many rows high, and below them, or over the last, where batches failed or
// were late.
func (w *weave) drawTrack(g *grid, y, each, foot int, t track) int {
	marks := make([]rune, w.bins)
	state := percent(t.device.GetBusyShare()) + " busy"
	if t.device.GetLost() != "" {
		state = "lost"
	}
	for i, s := range t.strips {
		label := t.labels[i]
		// There is one row for the device, so that its state stands behind the name.
		if each == 1 && i == 0 && len(t.strips) == 1 {
			label += " " + strings.TrimSuffix(state, " busy")
		}
		g.text(0, y, labelWidth-1, label, normal)
		if each > 1 && i == 0 {
			g.text(0, y+1, labelWidth-1, state, normal.weak())
		}
		w.drawLane(g, labelWidth, y, each, s)
		for at, m := range s.marks {
			marks[at] = max(marks[at], m)
		}
		y += each
	}
	for i, m := range marks {
		if m != 0 {
			g.set(labelWidth+i, y-1+foot, m, normal.in(red).strong())
		}
	}
	return y + foot
}

// drawAxis says how long ago the left end of the strips is, and the middle, where nothing else is said.
func (w *weave) drawAxis(g *grid, x, y int) {
	for _, tick := range []struct {
		at int
		of float64
	}{{0, 1}, {w.bins / 2, 0.5}} {
		ago := w.bin * float64(w.bins) * tick.of
		text := fmt.Sprintf("-%s ms", digits(ago))
		if ago >= 1000 {
			text = fmt.Sprintf("-%s s", digits(ago/1000))
		}
		g.text(x+tick.at, y, 10, text, normal.weak())
	}
	g.right(x+w.bins, y, 3, "now", normal.weak())
}
