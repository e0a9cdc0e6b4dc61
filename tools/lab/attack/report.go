package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/weftserve/weft/tools/lab/harness"
)

func list(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i := range attacks {
		a := &attacks[i]
		fmt.Fprintf(w, "%s\t%s\t%s\n", a.name, a.cap(), a.about)
	}
	return w.Flush()
}

// cap says how fast an attack is at most.
func (a *attack) cap() string {
	text := fmt.Sprintf("%.0f %s/s", a.rate, a.unit)
	if a.rate == 0 {
		text = fmt.Sprintf("%d %s", a.connections, a.unit)
	}
	if a.most > 0 {
		text += fmt.Sprintf(", %d a connection", a.most)
	}
	return text
}

// publish writes the tables as Markdown.
func (c *runCommand) publish(all []harness.Table) error {
	var text strings.Builder
	fmt.Fprintf(&text, "# What attacks cost\n\nWritten by `make attack`; [the attack suite](README.md#the-attack-suite) describes "+
		"the figures. %s\n\nRounds: %d of %v, beside a control each. The server has one processor, the attacker and the "+
		"honest callers another.\n", harness.Machine(c.Weft), c.effort().rounds, c.effort().span)
	for _, t := range all {
		t.Markdown(&text)
	}
	return os.WriteFile(c.Out, []byte(text.String()), 0o644)
}

// counted says how often what was seen, most often first.
func counted(counts map[string]int) string {
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	for i, k := range keys {
		keys[i] = fmt.Sprintf("%d × %s", counts[k], k)
	}
	return strings.Join(keys, "; ")
}
