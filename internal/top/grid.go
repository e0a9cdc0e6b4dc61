package top

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// color is 0xRRGGBB, or one of the two below.
type color int32

const (
	plain color = -1 // that of the terminal
	red   color = -2 // missed or wrong, in a shade that is seen on the terminal's background
)

// style is how a cell looks.
type style struct {
	fg, bg                  color
	bold, faint, underlined bool
	reversed                bool
}

// normal is the style of the terminal. All others are made of it by the methods below, which return copies.
var normal = style{fg: plain, bg: plain}

func (s style) in(fg color) style { s.fg = fg; return s }
func (s style) on(bg color) style { s.bg = bg; return s }
func (s style) strong() style     { s.bold = true; return s }
func (s style) weak() style       { s.faint = true; return s }
func (s style) swapped() style    { s.reversed = true; return s }

// cell is one place of the screen. The one after a wide character has the rune 0.
type cell struct {
	r rune
	style
}

// grid is a screen, or a part of one. What is put beyond its edges is cut off.
type grid struct {
	width, height int
	cells         []cell
}

// newGrid returns a grid of blanks.
func newGrid(width, height int) *grid {
	g := &grid{width: width, height: height, cells: make([]cell, width*height)}
	for i := range g.cells {
		g.cells[i] = cell{' ', normal}
	}
	return g
}

// set puts a character that is one column wide.
func (g *grid) set(x, y int, r rune, s style) {
	if x >= 0 && x < g.width && y >= 0 && y < g.height {
		g.cells[y*g.width+x] = cell{r, s}
	}
}

// text puts a text, cut to so many columns, and returns how many it took. Texts may come from callers: a character that
// cannot be printed, such as a control character that a terminal acts on, becomes a question mark. A combining
// character, which has no column of its own, is left out.
func (g *grid) text(x, y, columns int, text string, s style) int {
	taken := 0
	for _, r := range text {
		width := 1
		// ASCII is most of all text, and each of its characters has one column.
		if r >= 0x7f || r < ' ' {
			if !unicode.IsPrint(r) {
				r = '?'
			} else if width = ansi.StringWidth(string(r)); width == 0 {
				continue
			}
		}
		// A wide character that fits by half is cut off, too.
		if taken+width > columns || x+taken+width > g.width {
			break
		}
		g.set(x+taken, y, r, s)
		if width == 2 {
			g.set(x+taken+1, y, 0, s)
		}
		taken += width
	}
	return taken
}

// right puts a text that ends before column x. One that is longer than so many columns loses its end.
func (g *grid) right(x, y, columns int, text string, s style) {
	if over := ansi.StringWidth(text) - columns; over > 0 {
		g.text(x-columns, y, columns, text, s)
		return
	}
	g.text(x-ansi.StringWidth(text), y, columns, text, s)
}

// restyle changes the style of a row, whatever stands in it.
func (g *grid) restyle(y int, change func(style) style) {
	for x := range g.width {
		if y >= 0 && y < g.height {
			g.cells[y*g.width+x].style = change(g.cells[y*g.width+x].style)
		}
	}
}

// String returns the text alone, without blanks at the ends of lines.
func (g *grid) String() string {
	var b strings.Builder
	for y := range g.height {
		var line strings.Builder
		for _, c := range g.cells[y*g.width : (y+1)*g.width] {
			if c.r != 0 {
				line.WriteRune(c.r)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " "))
		if y < g.height-1 {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// encode returns the screen as terminals take it, with a sequence only where the style changes. Each line ends in the
// normal style, or some terminals would color the rest of it. On a light background reds are darker.
func (g *grid) encode(light bool) string {
	var b strings.Builder
	now := normal
	for y := range g.height {
		for _, c := range g.cells[y*g.width : (y+1)*g.width] {
			// The wide character before it fills this place, too.
			if c.r == 0 {
				continue
			}
			if c.style != now {
				b.WriteString(c.sequence(light))
				now = c.style
			}
			b.WriteRune(c.r)
		}
		// The last line has no end: a terminal would scroll.
		if y < g.height-1 {
			if now != normal {
				b.WriteString("\x1b[m")
				now = normal
			}
			b.WriteByte('\n')
		}
	}
	if now != normal {
		b.WriteString("\x1b[m")
	}
	return b.String()
}

// sequence returns what turns a terminal to the style, whatever it had before.
func (s style) sequence(light bool) string {
	// The sequence begins with a reset, so that it need not know what the terminal had before.
	codes := []string{"0"}
	for _, attribute := range []struct {
		code string
		is   bool
	}{{"1", s.bold}, {"2", s.faint}, {"4", s.underlined}, {"7", s.reversed}} {
		if attribute.is {
			codes = append(codes, attribute.code)
		}
	}
	// A color of the terminal's own needs no code after the reset.
	add := func(ground string, c color) {
		if c == red {
			if c = 0xff5f5f; light {
				c = 0xc00000
			}
		}
		if c >= 0 {
			codes = append(codes, ground, "2", strconv.Itoa(int(c>>16&255)), strconv.Itoa(int(c>>8&255)),
				strconv.Itoa(int(c&255)))
		}
	}
	add("38", s.fg)
	add("48", s.bg)
	return "\x1b[" + strings.Join(codes, ";") + "m"
}
