package structure_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weftserve/weft/runtime/proof/structure"
)

// listed reads the table of operators of the page: its text on each, by name.
func listed(t *testing.T) map[string]string {
	t.Helper()
	raw, err := os.ReadFile("../../../docs/internals/batching.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(raw), "\n## Operators with rules\n")
	if !found {
		t.Fatal("the page has no list of operators")
	}
	said := map[string]string{}
	head := regexp.MustCompile("^\\| (?:ONNX|`([a-z.]+)`)(?:, ([a-z ]+))? \\| (.*) \\|\n$")
	for line := range strings.Lines(list) {
		m := head.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		var names []string
		for name := range strings.SplitSeq(m[3], ", ") {
			name = strings.TrimPrefix(m[1]+"."+strings.Trim(name, "`"), ".")
			if _, twice := said[name]; twice {
				t.Errorf("%s is listed twice", name)
			}
			said[name] = m[2]
			names = append(names, name)
		}
		if !slices.IsSorted(names) {
			t.Errorf("not in order: %s", m[3])
		}
	}
	return said
}

// The page lists the operators that have rules, and says which are not proven of rows, and at which of them rows are
// sure to meet.
func TestPageListsTheOperators(t *testing.T) {
	said := listed(t)
	for _, name := range structure.Operators() {
		if what, ok := said[name]; !ok {
			t.Errorf("%s has a rule and is not listed", name)
		} else if structure.NeverProven(name) != (what != "") {
			t.Errorf("%s is listed as %q", name, what)
		}
	}
	for name := range said {
		if !slices.Contains(structure.Operators(), name) {
			t.Errorf("%s is listed, and has no rule", name)
		}
	}
	for _, line := range ruleLines(t) {
		name := line.name()
		if what := said[name]; what != "" && proveSketch(t, line.sketch).Mixes != (what == "rows meet") {
			t.Errorf("%s is listed as %q: %s", name, what, line.sketch)
		}
	}
}
