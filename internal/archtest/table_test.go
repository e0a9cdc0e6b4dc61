package archtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const architecturePage = "docs/ARCHITECTURE.md"

// quoted is a name in the code style of a page.
var quoted = regexp.MustCompile("`([^`]+)`")

// importTable wants the table "Who may import whom" of the page to agree with layers for each package. A name in the
// table is a package, or the last parts of its path; it stands for the packages below it, too.
func importTable(page string, layers []rule) []string {
	_, table, found := strings.Cut(page, "## Who may import whom")
	table, _, _ = strings.Cut(table, "\n#")
	if !found {
		return []string{architecturePage + " has no table of imports"}
	}
	var complaints, listed []string
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 4 {
			continue
		}
		may, _, _ := strings.Cut(cells[2], ". ") // the sentences behind are comments
		for _, m := range quoted.FindAllStringSubmatch(cells[1], -1) {
			pkg := m[1]
			listed = append(listed, pkg)
			i := slices.IndexFunc(layers, func(l rule) bool { return covers(l.of, pkg) })
			switch {
			case i < 0:
				complaints = append(complaints, fmt.Sprintf("%s: %s has no row in layers", architecturePage, pkg))
			case strings.Contains(may, "everything"), strings.Contains(may, "imported by"):
			default:
				complaints = append(complaints, differences(pkg, may, layers[i].names)...)
			}
		}
	}
	for _, l := range layers {
		pkg := strings.TrimSuffix(l.of, "/...")
		of, below, _ := strings.Cut(pkg, "/")
		if slices.Contains([]string{"sharedsched", "runtime", "server"}, of) && strings.Count(below, "/") == 0 &&
			pkg != "server/servertest" && !slices.Contains(listed, pkg) {
			complaints = append(complaints, fmt.Sprintf("%s: %s has no row", architecturePage, pkg))
		}
	}
	return complaints
}

// differences compares a cell of the table with the patterns of a layer.
func differences(pkg, cell string, patterns []string) []string {
	var complaints, names []string
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		names = append(names, m[1])
	}
	means := func(name, pattern string) bool {
		pattern = strings.TrimSuffix(pattern, "/...")
		return strings.HasSuffix("/"+pattern, "/"+name) || strings.HasPrefix(pattern+"/", name+"/")
	}
	for _, name := range names {
		if !slices.ContainsFunc(patterns, func(p string) bool { return means(name, p) }) {
			complaints = append(complaints, fmt.Sprintf("%s: %s may import %s; layers says it may not",
				architecturePage, pkg, name))
		}
	}
	for _, pattern := range patterns {
		own := strings.Contains(cell, "its own subpackage") && strings.HasPrefix(pattern, pkg+"/")
		if !own && !slices.ContainsFunc(names, func(name string) bool { return means(name, pattern) }) {
			complaints = append(complaints, fmt.Sprintf("%s: %s may not import %s; layers says it may",
				architecturePage, pkg, pattern))
		}
	}
	return complaints
}

func TestImportTable(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(architecturePage)))
	if err != nil {
		t.Fatal(err)
	}
	for _, complaint := range importTable(string(page), layers) {
		t.Error(complaint)
	}
}

func TestImportTableComplains(t *testing.T) {
	const head = "## Who may import whom\n\n| package | may import |\n|---|---|\n"
	rules := []rule{
		{of: "runtime/tensor"},
		{of: "runtime/a", names: []string{"runtime/a/b", "runtime/tensor", "internal/config/..."}},
		{of: "sharedsched/...", names: []string{"sharedsched/..."}},
	}
	const tensorRow, schedRow = "| `runtime/tensor` | nothing |\n", "| `sharedsched` | its own subpackages |\n"
	const a = "| `runtime/a` | its own subpackage, `tensor`, `internal/config`. It is not `gpu` |\n"
	for _, tt := range []struct{ page, want string }{
		{head + tensorRow + a + schedRow, ""},
		{head + tensorRow + schedRow, "runtime/a has no row"},
		{head + tensorRow + a + schedRow + "| `runtime/z` | nothing |\n", "runtime/z has no row in layers"},
		{
			head + tensorRow + schedRow + "| `runtime/a` | its own subpackage, `tensor` |\n",
			"runtime/a may not import internal/config/...; layers says it may",
		},
		{head + "| `runtime/tensor` | `gpu` |\n" + a + schedRow, "runtime/tensor may import gpu; layers says it may not"},
		{"## Somewhere else\n", "has no table"},
	} {
		got := strings.Join(importTable(tt.page, rules), "\n")
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s\ncomplaints %q, want %q", tt.page, got, tt.want)
		}
	}
}
