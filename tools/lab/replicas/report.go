package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/weftserve/weft/tools/lab/harness"
)

// columns of the tables of what is no balancing.
var columns = []struct {
	title, about string
	columns      []string
}{
	{
		rollingTitle, "Three servers at a load of 0.4, all kinds of calls at once. Each server is replaced by one at " +
			"another address, which callers\nhave a second before the old one is told to stop. Callers send nothing again; " +
			"balancers do as their files say.\nRows with the same time share the servers that are replaced.",
		[]string{"calls", "address removed after", "servers replaced", "sent", "failed", "with", "in time, %"},
	},
	{killTitle, "SIGKILL of one of three.", []string{"calls", "sent", "failed", "with"}},
	{
		episodesTitle, "Three servers, steps to any of them, a traffic of two versions with equal weights.",
		[]string{"episodes", "answers", "failed", "at version 1", "of another version than before"},
	},
	{
		ringTitle, "One of three servers stops, and returns at another address.",
		[]string{"ring", "episodes", "at the one that went", "others that moved meanwhile", "moved when it was back"},
	},
}

// tables returns all, the most important first, and whether every promise is kept.
func (r *trial) tables() (all []*harness.Table, kept bool) {
	head := &harness.Table{
		Title: "Promises", About: "Medians of the rounds, with the least and the greatest. What may never happen is counted.",
		Columns: []string{"what", "measured", "aim", "met"},
	}
	all = append(all, head)
	var promises []promise
	for i := range cells {
		promises = append(promises, r.book.promises(&cells[i])...)
	}
	promises = append(promises, r.book.judged...)
	for _, p := range promises {
		head.Add(p.row()...)
	}
	for i := range cells {
		c := &cells[i]
		t := &harness.Table{
			Title: fmt.Sprintf("Balancing: %s, load %.1f", c.about, c.load),
			About: fmt.Sprintf("%d calls a second on %d channels. The odd one is the first server.",
				int(c.rate()/float64(r.Slow)), channels),
			Columns: []string{
				"policy", "in time, %", "p50 / limit", "p99 / limit", "share of the odd one, %", "failed, %",
				"sent late, p99 / limit",
			},
		}
		for _, p := range policies {
			samples := r.book.balanced[[2]string{c.name, p.name}]
			if len(samples) == 0 {
				continue
			}
			of := func(format string, get func(s sample) float64) string {
				var v []float64
				for _, s := range samples {
					v = append(v, get(s))
				}
				return show(format, v)
			}
			t.Add(p.name, of("%.2f", func(s sample) float64 { return 100 * s.inTime }),
				of("%.2f", func(s sample) float64 { return s.p50 }), of("%.2f", func(s sample) float64 { return s.p99 }),
				of("%.1f", func(s sample) float64 { return 100 * s.odd }),
				of("%.2f", func(s sample) float64 { return 100 * float64(s.failed) / float64(max(s.calls, 1)) }),
				of("%.3f", func(s sample) float64 { return s.lag }))
		}
		if len(t.Rows) > 0 {
			all = append(all, t)
		}
	}
	for _, c := range columns {
		if rows := r.book.rows[c.title]; len(rows) > 0 {
			all = append(all, &harness.Table{Title: c.title, About: c.about, Columns: c.columns, Rows: rows})
		}
	}
	return all, allMet(promises)
}

// publish prints the tables, and writes the page of a full run that measured everything. A promise that is not kept is
// an error.
func (r *trial) publish(o harness.Output, whole bool) error {
	all, kept := r.tables()
	for _, t := range all {
		if err := t.Text(o.Out); err != nil {
			return err
		}
	}
	var broken error
	if !kept {
		broken = errors.New("a promise is not kept: see NO in the table of promises")
	}
	if r.Out == "" || r.Quick || !whole || len(r.Only) > 0 {
		return broken
	}
	var page bytes.Buffer
	fmt.Fprintf(&page, `# Several servers

`+"`make replicas`"+` wrote this page; [Measurements of several servers](many-machines.md) says what it measures. All servers, callers and balancers
shared one machine. Devices are synthetic: %v and %v a row, batches of at most %d rows, all of it slower by a
factor of %d. An answer is in time within %v. Rounds: %d of %v, after %v in which weights settle; a round measures all
policies of a cell against the same servers, one after the other.

%s
`, base, perRow, mostRows, r.Slow, limit*time.Duration(r.Slow), r.rounds, r.span, r.settle, harness.Machine(r.Weft))
	for _, t := range all {
		t.Markdown(&page)
	}
	return errors.Join(broken, os.WriteFile(r.Out, page.Bytes(), 0o644))
}
