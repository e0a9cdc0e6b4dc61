// Package top shows a running server at a terminal: `weft top`.
//
// # Parts
//
//   - A source gives what a server does (weft.v1.Activity), as it happens. It is a server (live) or the demo.
//   - A history keeps a bounded part of it.
//   - A page is drawn from the history into a grid of cells. The first page has a sentence about who uses the device
//     and who suffers, the weave, which shows who has the device when, and a table of the versions. Others list the
//     late and lost requests of a version, and tell the story of one.
//   - The screen holds the pages together, and is the model of the terminal library.
//   - A report is the same table as text or JSON, for people who look once.
//
// # Time
//
// A server sends an update four times a second, and times in it are milliseconds since its run began. The screen draws
// about fourteen times a second, a little behind the latest update, so that the weave flows. One goroutine receives
// updates and sends them to the screen; all state changes in the goroutine of the terminal library.
package top

import (
	"context"
	"hash/fnv"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// screen is what `weft top` shows, and the model of the terminal library: it changes in Update only.
type screen struct {
	ask  func(string) tea.Cmd // has a request explained
	find func(string) tea.Cmd // lists the late and lost requests of a model
	name string               // of the server
	self string               // how `weft explain` is told of it

	// What the terminal says of itself, in columns and lines.
	width, height int
	letters       bool // no colors
	light         bool

	// What the server says. Updates are held while the picture is frozen.
	history *history // what is shown
	frozen  bool     // what comes is held
	held    []*weftv1.Activity
	lost    error // the connection is; nil while it is there

	// What the user has chosen. chosen and device name the selected row, and span is a place in spans.
	by       order
	filter   string
	typing   bool // the filter is being typed
	chosen   string
	device   string
	span     int
	behind   float64 // milliseconds by which the weave is behind what is known, so that it flows between updates
	page     page
	help     bool
	requests listing
	told     story
}

// page is what fills the screen.
type page int

const (
	pageWeave page = iota
	pageList
	pageStory
)

// lostMsg says that the connection ended; nil that there is one again.
type lostMsg struct{ err error }

// listMsg is what find leads to, storyMsg what ask does.
type listMsg struct {
	answer *weftv1.ListRequestsResponse
	err    error
}

// storyMsg is what ask leads to. The answer may come after the user has left the page; name says which request it is
// for.
type storyMsg struct {
	name   string
	answer *weftv1.Explanation
	err    error
}

// newScreen returns the screen before the first update. The terminal library says its size and colors by messages that
// come before it draws.
func newScreen(ctx context.Context, s source) *screen {
	return &screen{
		name: s.name(), self: s.flags(), width: 80, height: 24, history: &history{}, by: order{key: '2'}, span: usualSpan,
		ask: func(name string) tea.Cmd {
			return func() tea.Msg {
				answer, err := s.explain(ctx, name)
				return storyMsg{name, answer, err}
			}
		},
		find: func(model string) tea.Cmd {
			return func() tea.Msg {
				answer, err := s.list(ctx, model)
				return listMsg{answer, err}
			}
		},
	}
}

// Init implements tea.Model.
func (*screen) Init() tea.Cmd { return tea.Batch(tea.RequestBackgroundColor, next()) }

// frame is the time between pictures: about fourteen a second, at which the weave seems to flow.
const frame = 70 * time.Millisecond

// frameMsg asks for the next picture.
type frameMsg struct{}

// next has the library send a frameMsg once frame has passed. Each frameMsg asks for the one after it.
func next() tea.Cmd { return tea.Tick(frame, func(time.Time) tea.Msg { return frameMsg{} }) }

// Update implements tea.Model. All state of the screen changes here, in the goroutine of the terminal library; calls to
// the server run as commands, and their answers come back as messages.
func (s *screen) Update(m tea.Msg) (tea.Model, tea.Cmd) {
	switch m := m.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = m.Width, m.Height
	case tea.ColorProfileMsg:
		s.letters = m.Profile <= colorprofile.ASCII
	case tea.BackgroundColorMsg:
		s.light = !m.IsDark()
	case frameMsg:
		s.behind = max(0, s.behind-float64(frame/time.Millisecond))
		return s, next()
	// An update also says that there is a connection. While the picture is frozen a minute of updates is held.
	case *weftv1.Activity:
		s.lost = nil
		if s.held = bounded(append(s.held, m), minute/every); !s.frozen {
			s.take()
		}
	case lostMsg:
		s.lost = m.err
	case listMsg:
		s.takeList(m)
	case storyMsg:
		s.told = story{name: m.name, answer: m.answer, err: m.err}
	case tea.KeyPressMsg:
		return s, s.press(m)
	}
	return s, nil
}

// take adds the updates that are held to the history. Updates come four times a second and pictures about fourteen
// times. So the weave is drawn a little behind what is known, and flows rather than jumps. It is at most two updates
// behind, or a program that was suspended would show the past.
func (s *screen) take() {
	for _, a := range s.held {
		// Times of another run do not compare.
		if s.history.GetRun() == a.GetRun() {
			s.behind = min(s.behind+a.GetNowMs()-s.history.GetNowMs(), 2*every)
		}
		s.history.add(a)
	}
	s.held = s.held[:0]
}

// rows are the versions that are shown, in order.
func (s *screen) rows() []*version { return s.history.rows(s.filter, s.by) }

// selected returns the chosen version and its place in the rows. If it is not shown that is the first row; if there are
// no rows it is nil.
func (s *screen) selected() (*version, int) {
	rows := s.rows()
	for i, v := range rows {
		if v.label == s.chosen && v.GetDevice() == s.device {
			return v, i
		}
	}
	if len(rows) == 0 {
		return nil, 0
	}
	return rows[0], 0
}

// View implements tea.Model.
func (s *screen) View() tea.View {
	return tea.View{Content: s.draw().encode(s.light), AltScreen: true, WindowTitle: "weft top"}
}

// palette is that of Okabe and Ito without black, which people of all kinds of sight tell apart.
var palette = [...]color{
	0xe69f00, // orange
	0x56b4e9, // sky blue
	0x009e73, // bluish green
	0xf0e442, // yellow
	0x0072b2, // blue
	0xd55e00, // vermillion
	0xcc79a7, // reddish purple
}

// colorOf returns the color of a version by its label, such as "walk v3". It is the same on every page and screen of
// Weft, since it depends on nothing else. Two versions may share a color; their letters differ.
func colorOf(label string) color {
	h := fnv.New32a()
	_, _ = h.Write([]byte(label)) // never fails
	return palette[h.Sum32()%uint32(len(palette))]
}

// ink is the color of text on one of the palette: black on light colors, white on dark ones. The sum is a thousand
// times the brightness as the eye weighs red, green and blue (ITU-R BT.601).
func ink(on color) color {
	if r, g, b := on>>16&255, on>>8&255, on&255; 299*r+587*g+114*b > 110_000 {
		return 0x000000
	}
	return 0xffffff
}

// letters name versions where colors do not.
const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// nameless is the letter of versions beyond those.
const nameless = '*'
