package top

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Sizes below which there is no picture.
const (
	leastWidth  = 72
	leastHeight = 10
)

// draw draws the whole screen: a title in the first line, a foot in the last, and the page between them. It changes
// nothing of the screen but the places of lists that were scrolled beyond their ends.
func (s *screen) draw() *grid {
	g := newGrid(max(s.width, 1), max(s.height, 1))
	if s.width < leastWidth || s.height < leastHeight {
		drawText(g, 0, s.height, 0, fmt.Sprintf("weft top needs %d columns and %d lines; there are %d and %d.",
			leastWidth, leastHeight, s.width, s.height))
		return g
	}
	s.drawTitle(g)
	s.drawFoot(g)
	body := s.height - 2
	switch {
	case s.help:
		s.drawKeys(g, 2)
	case s.page == pageList:
		s.drawList(g, 1, body)
	case s.page == pageStory:
		s.drawStory(g, 1, body)
	// There was no update yet: the first connection is being made, or failed.
	case s.history.Activity == nil:
		said := "connecting to " + s.name + " ..."
		if s.lost != nil {
			said = s.lost.Error() + ". Trying again ..."
		}
		drawText(g, 2, body, 0, said)
	default:
		s.drawWeave(g, 1, body)
	}
	return g
}

// drawTitle draws the name of the server, how long it has run, and at the right whether the picture is live.
func (s *screen) drawTitle(g *grid) {
	h := s.history
	g.text(0, 0, g.width, "weft top", normal.strong())
	// The name leaves room for the times and the state.
	x := 10 + g.text(10, 0, g.width-40, s.name, normal)
	if h.Activity != nil {
		since := "up " + lasted(h.GetNowMs())
		if h.restarts > 0 {
			since = "restarted " + h.GetBegan().AsTime().Local().Format(time.TimeOnly) + ", " + since
		}
		g.text(x+2, 0, g.width-x-14, since, normal.weak())
	}
	switch {
	// The last picture stays while the connection is away; the state says that it is not live.
	case s.lost != nil && h.Activity != nil:
		g.right(g.width, 0, 24, " connection lost ", normal.in(red).strong().swapped())
	case s.frozen:
		g.right(g.width, 0, 10, " frozen ", normal.strong().swapped())
	default:
		g.right(g.width, 0, 10, "live", normal.weak())
	}
}

// drawFoot draws what the user types, or why there is no connection, or the keys of the page.
func (s *screen) drawFoot(g *grid) {
	y := g.height - 1
	switch {
	case s.typing:
		g.text(0, y, g.width, "filter: "+s.filter+"_   enter keeps it, esc shows all", normal.strong())
	case s.lost != nil && s.history.Activity != nil:
		g.text(0, y, g.width, "Trying again: "+strings.ReplaceAll(s.lost.Error(), "\n", " "), normal.in(red))
	case s.page == pageList:
		g.text(0, y, g.width, "up/down select  enter its story  r ask again  esc back  ? keys  q quit", normal.weak())
	case s.page == pageStory:
		g.text(0, y, g.width, "up/down scroll  esc back  ? keys  q quit", normal.weak())
	default:
		said := "0-9 sort  f filter  enter explain  +/- time  space freeze  ? keys  q quit"
		if s.filter != "" {
			said = fmt.Sprintf("filter %q (esc shows all)  ", s.filter) + said
		}
		g.text(0, y, g.width, said, normal.weak())
	}
}

// drawKeys draws the page of help: the keys, and how the picture is to be read.
func (s *screen) drawKeys(g *grid, y int) {
	for _, k := range keys {
		g.text(2, y, 16, k[0], normal.strong())
		g.text(20, y, g.width-20, k[1], normal)
		y++
	}
	drawText(g, y+1, g.height-y-2, 0,
		"A strip is a lane of a device: what is filled was busy, by the version of that color or letter. ! is a batch or "+
			"request that was late, x one that failed or was not answered. Bars are waiting requests: each step means twice as "+
			"many. due is the share that a version is entitled to; tgt its target; lost and late are of the last minute.")
}

// sentenceLines is the room for the sentence.
const sentenceLines = 3

// drawWeave draws the sentence, the weave, and below it the table.
func (s *screen) drawWeave(g *grid, top, height int) {
	h := s.history
	y := top
	for _, line := range wrapped(h.sentence(), g.width, sentenceLines) {
		g.text(0, y, g.width, line, normal.strong())
		y++
	}
	rows := s.rows()
	// The table has a row for each version and its head, but at most half of the room. The weave has the rest.
	rest := top + height - y
	table := min(len(rows)+1, max(3, rest/2))
	// A frozen picture ends at the latest update; one that flows is behind it.
	now := h.GetNowMs()
	if !s.frozen {
		now -= s.behind
	}
	w := newWeave(h, now, spans[s.span], g.width-labelWidth, s.letters)
	y += w.draw(g, y, rest-table, rows)
	selected, _ := s.selected()
	h.drawTable(g, y, top+height-y, rows, s.by, selected)
	// What the table leaves below it shows the details of the selected version.
	if y += len(rows) + 1; selected != nil && top+height-y >= 2 {
		for i, line := range wrapped(selected.detail(), g.width, top+height-y-1) {
			g.text(0, y+1+i, g.width, line, normal.weak())
		}
	}
}

// detail says what the table has no room for.
func (v *version) detail() string {
	t := v.GetTotals()
	said := []string{fmt.Sprintf("%s on %s: weight %.3g", v.label, v.GetDevice(), v.GetWeight())}
	// Padding is what a batch is filled up with, to a size that the model allows.
	if all := t.GetRows() + t.GetPaddedRows(); all > 0 {
		said = append(said, percent(t.GetPaddedRows()/all)+" of its rows are padding")
	}
	if starts := parts(t.GetFlushes()); starts != "" {
		said = append(said, "batches start "+starts)
	}
	if lost := parts(t.GetLost()); lost != "" {
		said = append(said, "lost "+lost)
	}
	return strings.Join(said, "; ") + "."
}

// mostParts is how many parts of a whole are named.
const mostParts = 4

// parts says what a sum is made of, the largest first, such as "full 75 %, idle 25 %".
func parts(of map[string]float64) string {
	sum := 0.0
	for _, n := range of {
		sum += n
	}
	// Equal parts are ordered by name, so that the line does not change with the order of a map.
	names := slices.SortedFunc(maps.Keys(of), func(a, b string) int {
		return cmp.Or(cmp.Compare(of[b], of[a]), cmp.Compare(a, b))
	})
	var said []string
	for _, name := range names[:min(len(names), mostParts)] {
		if of[name] > 0 {
			said = append(said, name+" "+percent(of[name]/sum))
		}
	}
	return strings.Join(said, ", ")
}
