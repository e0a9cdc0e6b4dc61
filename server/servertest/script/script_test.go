package script

import "testing"

// TestPlay is the negative control of all scripts: each answer that is not the expected one is found.
func TestPlay(t *testing.T) {
	echo := func(event string) string {
		switch event {
		case "two":
			return "one\ntwo"
		case "nothing":
			return ""
		}
		return "an answer to " + event
	}
	for _, c := range []struct {
		script, played string
		wrong          int
	}{
		{"name\n# > \n\na > an answer to a\nnothing", "name\n# > \n\na > an answer to a\nnothing", 0},
		{"name\ntwo >\n\tone\n\ttwo\n1..3: # > an answer to #\n", "name\ntwo >\n\tone\n\ttwo\n1..3: # > an answer to #\n", 0},
		{"name\na", "name\na > an answer to a", 1},
		{"name\na > an answer", "name\na > an answer to a", 1},
		{"name\nnothing > something", "name\nnothing", 1},
		{"name\ntwo > one\n1..3: # > an answer to 2", "name\ntwo >\n\tone\n\ttwo\n1..3: # > an answer to #", 3},
	} {
		if played, wrong := play(c.script, echo); played != c.played || len(wrong) != c.wrong {
			t.Errorf("%q: played %q, wrong %q", c.script, played, wrong)
		}
	}
}
