package structure_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weftserve/weft/runtime/proof/structure"
)

// The page lists the operators that have rules: those that can be proven, and those that are known to let rows meet.
func TestPageListsTheOperators(t *testing.T) {
	raw, err := os.ReadFile("../../../docs/BATCHING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(raw), "<!-- operators -->")
	list, _, end := strings.Cut(list, "<!-- end of operators -->")
	if !found || !end {
		t.Fatal("the page has no list of operators")
	}
	var listed, never []string
	for line := range strings.Lines(list) {
		domain := ""
		if m := regexp.MustCompile("^\\| (?:ONNX|`([a-z.]+)`)").FindStringSubmatch(line); m != nil && m[1] != "" {
			domain = m[1] + "."
		}
		_, cell, _ := strings.Cut(strings.TrimPrefix(line, "| "), "|")
		for _, m := range regexp.MustCompile("`([A-Za-z0-9]+)`").FindAllStringSubmatch(cell, -1) {
			listed = append(listed, domain+m[1])
			if strings.Contains(line, "rows meet") {
				never = append(never, domain+m[1])
			}
		}
	}
	slices.Sort(listed)
	for _, name := range structure.Operators() {
		if !slices.Contains(listed, name) {
			t.Errorf("%s has a rule and is not listed", name)
		}
		if structure.NeverProven(name) != slices.Contains(never, name) {
			t.Errorf("%s is listed as one that lets rows meet: %v", name, slices.Contains(never, name))
		}
	}
	for i, name := range listed {
		if !slices.Contains(structure.Operators(), name) || i > 0 && listed[i-1] == name {
			t.Errorf("%s is listed, and has no rule or is listed twice", name)
		}
	}
}
