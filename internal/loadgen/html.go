package loadgen

import (
	_ "embed" // the template
	"html/template"
	"io"
	"strings"
)

// page is the template of the report, with its styles in it.
//
//go:embed report.html
var page string

// pageTemplate escapes what a stream is named or a server says.
var pageTemplate = template.Must(template.New("report").Parse(page))

// html writes the report as a page that needs no other file.
func (r *Report) html(to io.Writer) error {
	var text strings.Builder
	if err := r.text(&text); err != nil {
		return err
	}
	return pageTemplate.Execute(to, struct {
		*Report
		Text                  string
		Charts                []chart
		Width, Height         int
		Left, Right, Baseline int
	}{r, text.String(), r.charts(), chartWidth, chartHeight, plotLeft, plotRight, plotBottom})
}

// charts lays out the curves of all streams: latencies by percentile, then answers and latencies over the time of the
// run, and those of a search by rate. Percentiles stand side by side at equal distances, since the tail is what is
// looked at.
func (r *Report) charts() []chart {
	var answers, latency, tail []curve
	percentiles := []string{"p50", "p90", "p95", "p99", "p99.9", "p99.99", "max"}
	var across []mark
	for i, label := range percentiles {
		across = append(across, mark{float64(i), label})
	}
	for i := range r.Streams {
		s := &r.Streams[i]
		all := map[string]curve{}
		for _, p := range s.Series {
			for name, y := range map[string]float64{
				"answers": p.AnswersPS, "failures": p.FailedPS, "p50": p.P50Ms, "p99": p.P99Ms,
			} {
				c := all[name]
				all[name] = curve{s.Name + " " + name, append(c.x, p.AtS), append(c.y, y)}
			}
		}
		answers = append(answers, all["answers"], all["failures"])
		latency = append(latency, all["p50"], all["p99"])
		q := s.LatencyMs
		tail = append(tail, curve{
			s.Name,
			[]float64{0, 1, 2, 3, 4, 5, 6},
			[]float64{q.P50, q.P90, q.P95, q.P99, q.P999, q.P9999, q.Max},
		})
	}
	charts := []chart{
		newChart("Latency by percentile, ms", true, across, tail...),
		newChart("Answers and failures a second, over the seconds of the run", false, nil, answers...),
		newChart("Latency over the seconds of the run, ms", true, nil, latency...),
	}
	// The steps are of different runs, and have a chart of their own.
	if r.Find != nil {
		c := r.Find.curve()
		charts = append(charts, newChart("p99 by requests a second, ms", true, nil, c))
	}
	return charts
}
