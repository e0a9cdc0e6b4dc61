package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// table is one of those that are printed.
type table struct {
	title   string
	about   string
	columns []string
	rows    [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) text(out io.Writer) error {
	fmt.Fprintf(out, "\n%s\n", t.title)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{t.columns}, t.rows...) {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

func (t *table) markdown(out io.Writer) {
	fmt.Fprintf(out, "\n## %s\n\n", t.title)
	if t.about != "" {
		fmt.Fprintf(out, "%s\n\n", t.about)
	}
	line := func(cells []string) { fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | ")) }
	line(t.columns)
	line(append([]string{"---"}, strings.Split(strings.Repeat("--: ", len(t.columns)-1), " ")[:len(t.columns)-1]...))
	for _, row := range t.rows {
		line(row)
	}
}
