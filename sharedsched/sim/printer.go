package sim

import (
	"fmt"
	"io"
	"math"
	"strings"
)

func percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }

// ratios returns the geometric mean and the least of a/b; "-" where b is zero somewhere.
func ratios(a, b []float64) (mean, worst string) {
	sum, least := 0.0, math.Inf(1)
	for i := range a {
		if a[i] == 0 || b[i] == 0 {
			return "-", "-"
		}
		sum += math.Log(a[i] / b[i])
		least = min(least, a[i]/b[i])
	}
	return fmt.Sprintf("%.2f", math.Exp(sum/float64(len(a)))), fmt.Sprintf("%.2f", least)
}

func numbers(values []float64) []string {
	var out []string
	for _, v := range values {
		out = append(out, fmt.Sprintf("%.2f", v))
	}
	return out
}

// printer writes Markdown and keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

func (p *printer) section(title, about string) { p.printf("\n## %s\n\n%s\n\n", title, about) }

func (p *printer) item(name, about string) { p.printf("- **%s**: %s.\n", name, about) }

func (p *printer) row(first string, cells []string, more ...string) {
	p.printf("| %s | %s |\n", first, strings.Join(append(append([]string(nil), cells...), more...), " | "))
}

func (p *printer) rule(columns int) { p.printf("|---|%s\n", strings.Repeat("--:|", columns)) }
