package top

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/weftserve/weft/internal/ask"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// listing is the page of a version's late and lost requests.
type listing struct {
	of       string // label
	model    string
	number   int32
	asked    bool // there is an answer
	err      error
	requests []request
	forgot   uint32
	at       int
}

// numberOf names a request by the server's number of it, as find and explain take it.
func numberOf(n uint32) string { return "#" + strconv.FormatUint(uint64(n), 10) }

// takeList takes the answer to find, and keeps the requests of the version that was selected: the server lists those of
// all versions of its model. Requests that no version was chosen for are left out.
func (s *screen) takeList(m listMsg) {
	l := &s.requests
	l.asked, l.err, l.forgot = true, m.err, m.answer.GetForgotten()
	versions := make([]*version, len(m.answer.GetVersions()))
	for i, v := range m.answer.GetVersions() {
		versions[i] = &version{label: ask.Label(v.GetModel(), v.GetVersion()), VersionActivity: v}
	}
	l.requests = slices.DeleteFunc(requestsOf(m.answer.GetRequests(), versions), func(q request) bool {
		return q.of == nil || q.of.label != l.of
	})
}

// pressList carries out a key on the page of requests.
func (s *screen) pressList(key string) tea.Cmd {
	l := &s.requests
	switch key {
	case "up", "k":
		l.at = max(0, l.at-1)
	case "down", "j":
		l.at = max(0, min(len(l.requests)-1, l.at+1))
	case "r":
		return s.find(l.model)
	case "enter", "right":
		if l.at < len(l.requests) {
			q := l.requests[l.at]
			// The number is known of each request; a caller's name may be missing or used twice.
			s.page, s.told = pageStory, story{name: numberOf(q.Number)}
			return s.ask(s.told.name)
		}
	}
	return nil
}

// story is the page of a request.
type story struct {
	name   string
	answer *weftv1.Explanation
	err    error
	top    int // the first line that is shown
}

// scroll moves the story by a line. How far it goes depends on the size of the screen, so drawStory bounds top.
func (t *story) scroll(key string) {
	switch key {
	case "up", "k":
		t.top = max(0, t.top-1)
	case "down", "j":
		t.top++
	}
}

// drawList draws the requests, the newest first.
func (s *screen) drawList(g *grid, top, height int) {
	l := &s.requests
	g.text(0, top, g.width, "Late and lost requests of "+l.of+", the newest first", normal.strong())
	switch {
	case !l.asked:
		g.text(0, top+2, g.width, "asking ...", normal.weak())
		return
	case l.err != nil:
		drawText(g, top+2, height-2, 0, l.err.Error())
		return
	case len(l.requests) == 0:
		drawText(g, top+2, height-2, 0, "None. The answers were in time. r asks again, esc goes back.")
		return
	}
	g.text(0, top+1, g.width, "   number  end                          after   waited  name", normal.weak())
	// A title, the heads of the columns, and the line below the list.
	most := height - 3
	l.at = min(l.at, len(l.requests)-1)
	first := max(0, l.at-most+1)
	for i := range l.requests[first:min(len(l.requests), first+most)] {
		q := &l.requests[first+i]
		y := top + 2 + i
		g.right(9, y, 9, numberOf(q.Number), normal)
		g.text(11, y, 27, q.Became(), normal.in(red))
		g.right(45, y, 8, digits(q.End-q.Arrival)+" ms", normal)
		g.right(54, y, 8, digits(q.Waited())+" ms", normal)
		g.text(56, y, g.width-56, q.Name(), normal)
		if first+i == l.at {
			g.restyle(y, style.swapped)
		}
	}
	// The server forgets the oldest requests first, and does not know their versions.
	said := fmt.Sprintf("%d of %d", l.at+1, len(l.requests))
	if l.forgot > 0 {
		said += fmt.Sprintf("; %d more of all versions are no longer remembered", l.forgot)
	}
	g.text(0, top+height-1, g.width, said, normal.weak())
}

// drawStory draws what is known of the way of a request.
func (s *screen) drawStory(g *grid, top, height int) {
	t := &s.told
	e := t.answer
	title := "Request " + t.name
	if e.GetId() != "" {
		title += " (" + e.GetId() + ")"
	}
	if e != nil {
		title += " for " + ask.Label(e.GetModel(), e.GetVersion())
	}
	g.text(0, top, g.width, title, normal.strong())
	switch {
	case t.err != nil:
		drawText(g, top+2, height-2, 0, t.err.Error())
	case e == nil:
		g.text(0, top+2, g.width, "asking ...", normal.weak())
	default:
		last := drawText(g, top+2, height-4, t.top, e.GetStory()...)
		t.top = min(t.top, last)
		// The demo has no server that a shell could ask.
		if s.self != "" {
			g.text(0, top+height-1, g.width, "The same at a shell: weft explain "+s.self+strings.TrimPrefix(t.name, "#"),
				normal.weak())
		}
	}
}

// drawText draws paragraphs, wrapped to the width of the screen, from line `from` of them on. It returns the last line
// from which the rest fills the room, beyond which nobody needs to scroll.
func drawText(g *grid, top, height, from int, paragraphs ...string) (last int) {
	var lines []string
	for _, p := range paragraphs {
		lines = append(lines, wrapped(p, g.width, 0)...)
	}
	last = max(0, len(lines)-height)
	for i, line := range lines[min(from, last):] {
		if i < height {
			g.text(0, top+i, g.width, line, normal)
		}
	}
	return last
}
