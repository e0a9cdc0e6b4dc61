package top

import (
	"strings"

	tea "charm.land/bubbletea/v2"
)

// keys are shown by `?`.
var keys = [][2]string{
	{"up, down, k, j", "select a version"},
	{"enter", "its late and lost requests; enter again: the story of one"},
	{"esc", "back"},
	{"1 ... 9, 0", "sort by the column of that number; again: the other way"},
	{"f", "filter by words of the name; esc: show all"},
	{"+, -", "a shorter, a longer time in the weave"},
	{"space", "freeze the picture, and go on"},
	{"?", "these keys"},
	{"q", "quit"},
}

// press carries out a key, and returns the call to the server that it leads to, or nil. While a filter is typed all
// keys belong to it; while the help is shown any key closes it, and nothing else. Other keys are those of the page.
func (s *screen) press(m tea.KeyPressMsg) tea.Cmd {
	key := m.String()
	// It quits whatever is typed: no mode may keep the user from leaving.
	if key == "ctrl+c" {
		return tea.Quit
	}
	// While a filter is typed, q and ? are letters.
	if s.typing {
		s.typeFilter(m)
		return nil
	}
	// q closes the help and quits.
	if s.help {
		s.help = false
		if key != "q" {
			return nil
		}
	}
	switch key {
	case "q":
		return tea.Quit
	case "?":
		s.help = true
		return nil
	case "esc", "backspace", "left":
		s.back()
		return nil
	}
	switch s.page {
	case pageList:
		return s.pressList(key)
	case pageStory:
		s.told.scroll(key)
		return nil
	case pageWeave:
		return s.pressWeave(key)
	}
	return nil
}

// back leads to the page before. On the first one it gives up the filter.
func (s *screen) back() {
	switch s.page {
	case pageStory:
		s.page = pageList
	case pageList:
		s.page = pageWeave
	case pageWeave:
		s.filter = ""
	}
}

// pressWeave carries out a key on the first page.
func (s *screen) pressWeave(key string) tea.Cmd {
	switch key {
	case "space":
		// All that came meanwhile is taken in at once.
		if s.frozen = !s.frozen; !s.frozen {
			s.take()
		}
	case "f", "/":
		s.typing = true
	case "+", "=":
		s.span = max(s.span-1, 0)
	case "-":
		s.span = min(s.span+1, len(spans)-1)
	case "up", "k":
		s.move(-1)
	case "down", "j":
		s.move(1)
	case "enter", "right":
		if v, _ := s.selected(); v != nil {
			s.page, s.requests = pageList, listing{of: v.label, model: v.GetModel(), number: v.GetVersion()}
			return s.find(v.GetModel())
		}
	default:
		if len(key) == 1 && key >= "0" && key <= "9" {
			pressed := rune(key[0])
			// The same key once more reverses the order, and a third time it is as at first.
			s.by = order{pressed, s.by.key == pressed && !s.by.opposite}
		}
	}
	return nil
}

// move selects another row. It keeps the label and the device rather than the row's number, since rows change places.
func (s *screen) move(by int) {
	rows := s.rows()
	_, at := s.selected()
	if at += by; at >= 0 && at < len(rows) {
		s.chosen, s.device = rows[at].label, rows[at].GetDevice()
	}
}

// maxFilter bounds the filter, in bytes, so that the foot has room for the keys beside it.
const maxFilter = 40

// typeFilter takes a key into the filter, which holds at once: the table narrows with each letter.
func (s *screen) typeFilter(m tea.KeyPressMsg) {
	switch key := m.String(); key {
	case "enter":
		s.typing = false
	case "esc":
		s.typing, s.filter = false, ""
	case "backspace":
		// A character is removed as a whole, whatever bytes it has.
		if runes := []rune(s.filter); len(runes) > 0 {
			s.filter = string(runes[:len(runes)-1])
		}
	case "space":
		// Leading blanks would filter nothing, and look like a filter.
		s.filter = strings.TrimLeft(s.filter+" ", " ")
	default:
		if text := m.Key().Text; text != "" && len(s.filter)+len(text) <= maxFilter {
			s.filter += text
		}
	}
}
