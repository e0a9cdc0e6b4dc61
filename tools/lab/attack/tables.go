package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/weftserve/weft/tools/lab/harness"
)

// word is what is wrong, or that nothing is.
func (v *verdict) word() string {
	if fails := v.fails(); len(fails) > 0 {
		return "fails: " + strings.Join(fails, ", ")
	}
	return "holds"
}

func tables(verdicts []verdict) []harness.Table {
	judged := harness.Table{
		Title: "Verdicts",
		About: "Memory is that of the server and of its workers, in MiB over what they had at rest, at most during the " +
			"attack and five\nseconds after. Medians of the rounds; those of the lost are sums.",
		Columns: []string{
			"attack", "verdict", "memory", "memory after", "p99 ms", "p99 of control", "ratio", "p99 at rest", "lost",
			"processor after",
		},
	}
	told := harness.Table{
		Title: "What was done and seen",
		About: "Medians of the rounds. The processor is that of the server and of its workers, in percent of one.",
		Columns: []string{
			"attack", "rate", "at most", "processor", "of control", "server MiB: rest, most, after",
			"workers MiB: rest, most, after", "p50 ms (control)", "max ms (control)", "p99 of new connections ms (control)",
		},
	}
	heard := harness.Table{
		Title:   "What the server said",
		About:   "The first round.",
		Columns: []string{"attack", "connections", "ended", "not made", "how", "GOAWAY", "RST_STREAM", "statuses"},
	}
	for i := range verdicts {
		v := &verdicts[i]
		if v.died {
			judged.Add(v.attack.name, v.word(), "", "", "", "", "", "", "", "")
			continue
		}
		judged.Add(v.attack.name, v.word(), mibs(v.growth), mibs(v.left), ms(v.p99), ms(v.control),
			fmt.Sprintf("%.1f", v.ratio()),
			ms(v.median(func(r round) float64 { return quantile(r.idle.Ms, 0.99) })), strconv.Itoa(v.lost), percent(v.afterCPU))
		told.Add(v.told()...)
		first := v.rounds[0].attack
		heard.Add(v.attack.name, whole(first.Dialed), whole(first.Ended), whole(first.Failed),
			counted(first.Ends), counted(first.GoAways), counted(first.Resets), counted(first.Statuses))
	}
	return []harness.Table{judged, told, heard}
}

// told is a row of what was done and seen.
func (v *verdict) told() []string {
	three := func(rest, most, after func(round) float64) string {
		return mibs(v.median(rest)) + ", " + mibs(v.median(most)) + ", " + mibs(v.median(after))
	}
	two := func(of func(*phase) []float64, q float64) string {
		return ms(v.median(func(r round) float64 { return quantile(of(r.attack), q) })) + " (" +
			ms(v.median(func(r round) float64 { return quantile(of(r.control), q) })) + ")"
	}
	kept := func(p *phase) []float64 { return p.Ms }
	rate := fmt.Sprintf("%.0f", v.median(func(r round) float64 {
		return float64(r.attack.Done) / max(r.attack.Seconds, 1e-3)
	}))
	if v.attack.rate == 0 {
		rate = fmt.Sprintf("%.0f in all", v.median(func(r round) float64 { return float64(r.attack.Dialed) }))
	}
	if v.rounds[0].attack.broken {
		rate = "broken off"
	}
	return []string{
		v.attack.name, rate, v.attack.cap(),
		percent(v.median(func(r round) float64 { return r.attack.cpu })),
		percent(v.median(func(r round) float64 { return r.control.cpu })),
		three(func(r round) float64 { return r.rest.server }, func(r round) float64 { return r.attack.peak.server },
			func(r round) float64 { return r.after.server }),
		three(func(r round) float64 { return r.rest.workers }, func(r round) float64 { return r.attack.peak.workers },
			func(r round) float64 { return r.after.workers }),
		two(kept, 0.5), two(kept, 1), two(func(p *phase) []float64 { return p.Visits }, 0.99),
	}
}

func whole(n int64) string     { return strconv.FormatInt(n, 10) }
func mibs(v float64) string    { return fmt.Sprintf("%.0f", v) }
func ms(v float64) string      { return fmt.Sprintf("%.2f", v) }
func percent(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) }
