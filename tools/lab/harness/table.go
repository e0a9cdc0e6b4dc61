package harness

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Table is a table that is printed.
type Table struct {
	Title, About string
	Columns      []string
	Rows         [][]string
}

// Add adds a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Text writes the table for a terminal.
func (t *Table) Text(out io.Writer) error {
	fmt.Fprintf(out, "\n%s\n", t.Title)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{t.Columns}, t.Rows...) {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// Markdown writes the table as a section of a page.
func (t *Table) Markdown(out io.Writer) {
	fmt.Fprintf(out, "\n## %s\n\n", t.Title)
	if t.About != "" {
		fmt.Fprintf(out, "%s\n\n", t.About)
	}
	rule := append([]string{"---"}, strings.Fields(strings.Repeat("--: ", len(t.Columns)-1))...)
	for _, row := range append([][]string{t.Columns, rule}, t.Rows...) {
		fmt.Fprintf(out, "| %s |\n", strings.Join(row, " | "))
	}
}
