package top

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/google/go-cmp/cmp"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// golden compares a text with a file. The flag -rewrite, which is that of datadriven, writes the file anew.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if flag.Lookup("rewrite").Value.String() == "true" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; go test -rewrite writes it anew):\n%s", path, diff)
	}
}

// atDemo tests with the made-up server and its screen as they always begin: their time is that of a bubble.
func atDemo(t *testing.T, test func(t *testing.T, d *demo, s *screen)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Second) // what makes the updates has ended then
		d := newDemo()
		test(t, d, seen(t, d, 1))
	})
}

// seen is a screen at the made-up server, 80 columns by 24 lines, without colors.
func seen(t *testing.T, s source, updates int) *screen {
	t.Helper()
	screen := newScreen(t.Context(), s)
	screen.Update(tea.ColorProfileMsg{Profile: colorprofile.ASCII})
	feed(t, screen, s, updates)
	return screen
}

// feed gives a screen so many updates of a source.
func feed(t *testing.T, screen *screen, s source, updates int) {
	t.Helper()
	if updates == 0 {
		return
	}
	err := s.watch(t.Context(), false, func(a *weftv1.Activity) bool {
		screen.Update(a)
		updates--
		return updates > 0
	})
	if err != nil {
		t.Fatal(err)
	}
}

// press presses keys, and carries out what they ask for.
func press(t *testing.T, s *screen, keys ...string) {
	t.Helper()
	for _, key := range keys {
		m := tea.KeyPressMsg{Code: []rune(key)[0], Text: key}
		if code, is := map[string]rune{
			"enter": tea.KeyEnter, "esc": tea.KeyEscape, "up": tea.KeyUp, "down": tea.KeyDown, "space": tea.KeySpace,
			"backspace": tea.KeyBackspace,
		}[key]; is {
			m = tea.KeyPressMsg{Code: code}
		}
		for _, command := s.Update(m); command != nil; {
			_, command = s.Update(command())
		}
	}
}

func screenText(s *screen) string { return s.draw().String() + "\n" }

func TestScreens(t *testing.T) {
	for name, keys := range map[string][]string{
		"weave.txt":  nil,
		"longer.txt": {"-", "-", "7"},
		"filter.txt": {"f", "p", "i", "c", "k"},
		"list.txt":   {"down", "down", "down", "enter", "down"},
		"story.txt":  {"down", "down", "down", "enter", "down", "enter"},
		"keys.txt":   {"?"},
	} {
		t.Run(name, func(t *testing.T) {
			atDemo(t, func(t *testing.T, _ *demo, s *screen) {
				press(t, s, keys...)
				golden(t, name, screenText(s))
			})
		})
	}
}

// TestColors has the same picture in colors.
func TestColors(t *testing.T) {
	atDemo(t, func(t *testing.T, _ *demo, s *screen) {
		s.Update(tea.ColorProfileMsg{Profile: colorprofile.TrueColor})
		golden(t, "colors.txt", strings.ReplaceAll(s.View().Content, "\x1b", "ESC")+"\n")
	})
}

func TestOnce(t *testing.T) {
	atDemo(t, func(t *testing.T, _ *demo, s *screen) {
		golden(t, "once.txt", s.history.text())
		var text bytes.Buffer
		if err := s.history.report(&text); err != nil {
			t.Fatal(err)
		}
		golden(t, "once.json", text.String())
	})
}

// TestPage: docs/operations/watch.md shows the screen as it is, and names each field of the JSON.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations/watch.md")
	if err != nil {
		t.Fatal(err)
	}
	weave, err := os.ReadFile("testdata/weave.txt")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), string(weave)) {
		t.Error("docs/operations/watch.md shows another screen than testdata/weave.txt")
	}
	report, err := os.ReadFile("testdata/once.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range regexp.MustCompile(`"([a-z0-9_]+)":`).FindAllStringSubmatch(string(report), -1) {
		name := field[1]
		if !strings.Contains(string(page), "`"+name+"`") && !strings.Contains(string(page), "`"+name+"[]`") &&
			!strings.Contains(string(page), "."+name+"`") && !slices.Contains([]string{"pick", "rank", "walk"}, name) {
			t.Errorf("docs/operations/watch.md does not name the field %s", name)
		}
	}
}
