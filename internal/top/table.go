package top

import (
	"cmp"
	"slices"
	"strings"
)

// column is one of the table.
type column struct {
	title string
	key   rune // that sorts by it; 0: none
	width int
	text  func(*version) string
	// value is what is sorted by, largest first; nil sorts by name.
	value func(*version) float64
	// bad reports that the value deserves red.
	bad func(*version) bool
}

// deviceTitle names the one column that stands left in its width, and is left out first.
const deviceTitle = "device"

// columns of the table. The first is the version's name, which takes the width that the others leave.
var columns = []column{
	{"model", '1', 0, nil, nil, nil},
	{deviceTitle, 0, 7, func(v *version) string { return v.GetDevice() }, nil, nil},
	{
		"share", '2', 7, func(v *version) string { return percent(v.GetShare()) },
		func(v *version) float64 { return v.GetShare() }, nil,
	},
	{
		"due", '3', 6, func(v *version) string {
			if b := v.GetBackgroundShare(); b > 0 && b >= v.GetShare() { // it has nothing else to do
				return "spare"
			}
			return percent(v.GetEntitledShare())
		},
		func(v *version) float64 { return v.GetEntitledShare() }, nil,
	},
	{
		"rate", '4', 6, func(v *version) string { return digits(v.GetRequestsPerSecond()) },
		func(v *version) float64 { return v.GetRequestsPerSecond() }, nil,
	},
	{
		"batch", '5', 7, func(v *version) string { return digits(v.GetRowsPerBatch()) },
		func(v *version) float64 { return v.GetRowsPerBatch() }, nil,
	},
	{
		"p50", '6', 5, func(v *version) string { return digits(v.GetP50Ms()) },
		func(v *version) float64 { return v.GetP50Ms() }, nil,
	},
	{
		"p99/tgt", '7', 9, func(v *version) string {
			if v.GetTargetMs() == 0 {
				return digits(v.GetP99Ms()) + "/-"
			}
			return digits(v.GetP99Ms()) + "/" + digits(v.GetTargetMs())
		},
		func(v *version) float64 { return v.GetP99Ms() },
		func(v *version) bool { return v.GetTargetMs() > 0 && v.GetP99Ms() > v.GetTargetMs() },
	},
	{
		"wait", '8', 6, func(v *version) string { return count(float64(v.GetWaiting())) },
		func(v *version) float64 { return float64(v.GetWaiting()) }, nil,
	},
	{
		"lost", '9', 6, func(v *version) string { return count(float64(v.GetLastMinute().GetLost())) },
		func(v *version) float64 { return float64(v.GetLastMinute().GetLost()) },
		func(v *version) bool { return v.GetLastMinute().GetLost() > 0 },
	},
	{
		"late", '0', 6, func(v *version) string { return count(float64(v.GetLastMinute().GetLate())) },
		func(v *version) float64 { return float64(v.GetLastMinute().GetLate()) },
		func(v *version) bool { return v.GetLastMinute().GetLate() > 0 },
	},
}

// order is how rows are sorted: by the column of a key, in its usual direction or the opposite one.
type order struct {
	key      rune
	opposite bool
}

// rows returns the versions whose names have all words of a filter, sorted. A key that no column has sorts by name.
// Rows of equal values are in the order of their names in either direction, so that they do not change places from one
// update to the next.
func (h *history) rows(filter string, by order) []*version {
	rows := slices.DeleteFunc(slices.Clone(h.versions), func(v *version) bool {
		text := strings.ToLower(v.label + " " + v.GetSlot() + " " + v.GetDevice())
		return slices.ContainsFunc(strings.Fields(strings.ToLower(filter)), func(word string) bool {
			return !strings.Contains(text, word)
		})
	})
	// The first column is the name's.
	at := max(0, slices.IndexFunc(columns, func(c column) bool { return c.key == by.key }))
	slices.SortStableFunc(rows, func(a, b *version) int {
		order := 0
		if value := columns[at].value; value != nil {
			order = cmp.Compare(value(b), value(a))
		}
		if order == 0 { // names ascend either way
			order = cmp.Or(cmp.Compare(a.GetModel(), b.GetModel()), cmp.Compare(a.GetVersion(), b.GetVersion()),
				cmp.Compare(a.GetDevice(), b.GetDevice()))
			// Only a table by name is reversed by names.
			if columns[at].value != nil {
				return order
			}
		}
		if by.opposite {
			return -order
		}
		return order
	})
	return rows
}

// roomy is the width from which a table has all columns.
const roomy = 90

// shownColumns are the columns that there is room for: where there is one device, its column says little.
func (h *history) shownColumns(width int) []column {
	if width >= roomy || len(h.GetDevices()) > 1 {
		return columns
	}
	return slices.DeleteFunc(slices.Clone(columns), func(c column) bool { return c.title == deviceTitle })
}

// drawTable draws the head and as many rows as there is room for, so that the selected one is seen. The column of names
// takes the width that the others leave. The key by which a column is sorted stands before its title.
func (h *history) drawTable(g *grid, top, height int, rows []*version, by order, selected *version) {
	shown := h.shownColumns(g.width)
	// One column is left free at the right edge.
	name := g.width - 1
	for _, c := range shown {
		name -= c.width
	}
	x := 0
	for _, c := range shown {
		width := cmp.Or(c.width, name)
		title := c.title
		// A text on paper has no keys to press.
		if c.key != 0 && by != unsorted {
			title = string(c.key) + title
		}
		s := normal.weak()
		if c.key == by.key {
			s = normal.strong()
			s.underlined = true
		}
		switch {
		case c.width == 0:
			g.text(2, top, width-2, title, s)
		case c.title == deviceTitle:
			g.text(x+1, top, width-1, title, s)
		default:
			g.right(x+width, top, width-1, title, s)
		}
		x += width
	}
	// The table scrolls just as far as the selected row needs; nil is not found, and does not scroll.
	first := max(0, slices.Index(rows, selected)-(height-2))
	for i, v := range rows[min(first, len(rows)):min(len(rows), first+height-1)] {
		h.drawRow(g, top+1+i, name, v, shown)
		if v == selected {
			g.set(1, top+1+i, '>', normal)
			g.restyle(top+1+i, style.swapped)
		}
	}
}

// drawRow draws a version: its letter on its color, its name, the slot if there is room, and the numbers. What is bad
// is red. Names have `name` columns, and shown are the columns of the table that fit.
func (h *history) drawRow(g *grid, y, name int, v *version, shown []column) {
	g.set(0, y, v.letter, normal.in(ink(v.color)).on(v.color))
	taken := 2 + g.text(2, y, name-3, v.short(name-3), normal)
	// The name goes before the slot, which stays away rather than being cut.
	if taken+1+len(v.GetSlot()) < name {
		g.text(taken+1, y, name-taken, v.GetSlot(), normal.weak())
	}
	x := name
	for _, c := range shown[1:] {
		s := normal
		if c.bad != nil && c.bad(v) {
			s = normal.in(red).strong()
		}
		if c.title == deviceTitle {
			g.text(x+1, y, c.width-1, c.text(v), s)
		} else {
			g.right(x+c.width, y, c.width-1, c.text(v), s)
		}
		x += c.width
	}
}
