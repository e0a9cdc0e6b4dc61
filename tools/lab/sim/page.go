package sim

import (
	"fmt"
	"math"
	"strings"
)

func percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }

// ratios returns the geometric mean and the least of a/b; "-" where b is zero somewhere.
func ratios(a, b []float64) (mean, worst string) {
	least := math.Inf(1)
	var all []float64
	for i := range a {
		if a[i] == 0 || b[i] == 0 {
			return "-", "-"
		}
		all, least = append(all, a[i]/b[i]), min(least, a[i]/b[i])
	}
	return fmt.Sprintf("%.2f", geomean(all)), fmt.Sprintf("%.2f", least)
}

func numbers(values ...float64) []string {
	var out []string
	for _, v := range values {
		cell := "-" // unknown
		if !math.IsNaN(v) {
			cell = fmt.Sprintf("%.2f", v)
		}
		out = append(out, cell)
	}
	return out
}

// page is Markdown in the making.
type page struct{ strings.Builder }

func (p *page) printf(format string, args ...any) { fmt.Fprintf(&p.Builder, format, args...) }

func (p *page) section(title, about string) { p.printf("\n## %s\n\n%s\n\n", title, about) }

func (p *page) item(name, about string) { p.printf("- **%s**: %s.\n", name, about) }

func (p *page) row(first string, cells ...string) {
	p.printf("| %s | %s |\n", first, strings.Join(cells, " | "))
}

// head begins a table whose columns but the first are aligned in that way.
func (p *page) head(align, first string, cells ...string) {
	p.row(first, cells...)
	p.printf("|---|%s\n", strings.Repeat(align+"|", len(cells)))
}

const right = "--:"
