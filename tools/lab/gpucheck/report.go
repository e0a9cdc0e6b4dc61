package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// Verdicts of a row.
const (
	passed  = "ok"
	failed  = "FAILED"
	skipped = "skipped"
	told    = "info" // a figure without a bound
)

// row is one thing that was checked.
type row struct {
	Check    string `json:"check"`
	Expected string `json:"expected"`
	Measured string `json:"measured"` // of a row that was skipped: why
	Verdict  string `json:"verdict"`
}

// report holds the findings of all checks. It is written again with each row, so that no finding is lost when the
// program is ended.
type report struct {
	dir      string
	progress io.Writer // each row is written to it
	soft     bool      // bounds of time are information: they were set for another device
	rows     []row
}

// add adds a row.
func (r *report) add(row row) {
	r.rows = append(r.rows, row)
	fmt.Fprintf(r.progress, "  %-7s %s: %s", row.Verdict, row.Check, short(row.Measured))
	if row.Expected != "" {
		fmt.Fprintf(r.progress, " (%s)", row.Expected)
	}
	fmt.Fprintln(r.progress)
	_ = r.write() // an error comes again at the end, and is reported then
}

// judge adds a row that is met or failed.
func (r *report) judge(check, expected, measured string, met bool) {
	verdict := failed
	if met {
		verdict = passed
	}
	r.add(row{check, expected, measured, verdict})
}

// timed adds a row whose bound holds for GPUs.
func (r *report) timed(check, expected, measured string, met bool) {
	if r.soft {
		r.add(row{check, expected, measured, told})
		return
	}
	r.judge(check, expected, measured, met)
}

func (r *report) tell(check, measured string) {
	r.add(row{check, "", measured, told})
}

func (r *report) skip(check, why string) {
	r.add(row{check, "", why, skipped})
}

// errFailed is the verdict where a row failed.
var errFailed = errors.New("a check failed, see the table")

// publish writes the table to w as well. The error is errFailed if a row failed, or the reason why the results could
// not be written. A report without a row is an error too: it shows nothing.
func (r *report) publish(w io.Writer) error {
	var verdict error
	if len(r.rows) == 0 {
		verdict = errors.New("nothing was checked")
	}
	if slices.ContainsFunc(r.rows, func(row row) bool { return row.Verdict == failed }) {
		verdict = errFailed
	}
	_, printed := fmt.Fprintf(w, "%s\nEverything is in %s\n", r.table(), r.dir)
	return errors.Join(verdict, printed, r.write())
}

// write writes the table and, for programs, the same rows to the results folder.
func (r *report) write() error {
	rows, err := json.MarshalIndent(r.rows, "", "  ")
	return errors.Join(err,
		os.WriteFile(filepath.Join(r.dir, "report.md"), []byte(r.table()), 0o644),
		os.WriteFile(filepath.Join(r.dir, "report.json"), append(rows, '\n'), 0o644))
}

// table returns Markdown that is aligned for terminals.
func (r *report) table() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	fmt.Fprint(w, "| check\t| expected\t| measured\t|\t|\n|---\t|---\t|---\t|---\t|\n")
	for _, row := range r.rows {
		fmt.Fprintf(w, "| %s\t| %s\t| %s\t| %s\t|\n", row.Check, row.Expected, short(row.Measured), row.Verdict)
	}
	_ = w.Flush() // a Builder takes everything
	return b.String()
}

// short cuts a text to the width of a table; report.json has all of it.
func short(text string) string {
	const most = 120
	text = strings.Join(strings.Fields(strings.ReplaceAll(text, "|", "/")), " ")
	if letters := []rune(text); len(letters) > most {
		return string(letters[:most-1]) + "…"
	}
	return text
}
