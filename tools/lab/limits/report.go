package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/weftserve/weft/tools/lab/harness"
)

// publish prints the tables, and writes the page of a full run.
func (c *runCommand) publish(b *book, places []place, e effort, o harness.Output) error {
	tables := c.tables(b, places, e)
	for _, t := range tables {
		if err := t.Text(o.Out); err != nil {
			return err
		}
	}
	for _, p := range places {
		fmt.Fprintf(o.Out, "\n%s\n", doubts(b, p))
	}
	if c.Out == "" || c.Quick {
		return nil
	}
	var page bytes.Buffer
	fmt.Fprintf(&page, `# How near to the limits

`+"`make bench-limits`"+` wrote this page; [the limit suite](README.md#the-limit-suite) says how it measures.
Medians of %d rounds, with the least and the greatest in parentheses; ratios are taken within each round.

%s
`, e.rounds, harness.Machine(c.Weft))
	for _, p := range places {
		fmt.Fprintf(&page, "\n%s\n", doubts(b, p))
	}
	for _, t := range tables {
		t.Markdown(&page)
	}
	return os.WriteFile(c.Out, page.Bytes(), 0o644)
}

// doubts says what speaks against the figures of a placement.
func doubts(b *book, p place) string {
	return fmt.Sprintf("%s: %d of %d runs of open loops were thrown away, because the client was late itself (p99 above "+
		"%d ms). Other programs used %s %% of the machine's processor time.", p.name, b.thrown[p.name], b.runs[p.name],
		mostLagMs, b.others[p.name].cell("%.0f"))
}

// names returns the names of the Weft servers that were measured.
func (c *runCommand) names() []string { return (&round{runCommand: c}).wefts() }

// tables returns all, the most important first.
func (c *runCommand) tables(b *book, places []place, e effort) []*harness.Table {
	head := &harness.Table{
		Title: "Promises", About: "What a server ought to reach, and what it did.",
		Columns: []string{"what", "processors", "server", "measured", "aim", "met"},
	}
	all := []*harness.Table{head}
	for _, p := range places {
		for _, server := range c.names() {
			j := &judge{book: b, place: p.name, server: server}
			for _, promised := range j.all(e.multiples) {
				head.Add(promised.row()...)
			}
		}
	}
	for _, t := range []*harness.Table{
		c.closedLoops(b, places), c.partLoads(b, places), c.alone(b, places), c.refusals(b, places),
		c.ladder(b, places, e), c.slowdowns(b, places),
	} {
		if len(t.Rows) > 0 {
			all = append(all, t)
		}
	}
	return all
}
