package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"
)

// row sums up the episodes of one version.
type row struct {
	version   string
	returns   []float64
	calls     [failed + 1]int
	latencies []time.Duration
	rows      int64
	firstErr  error
}

// writeReport writes one line for each version. Episodes that were cut short count as calls, not as returns.
func writeReport(w io.Writer, episodes []*episode) error {
	byVersion := map[string]*row{}
	cutShort, behind, calls := 0, 0, 0
	for _, e := range episodes {
		r := byVersion[e.versionName()]
		if r == nil {
			r = &row{version: e.versionName()}
			byVersion[r.version] = r
		}
		r.add(e)
		if !e.finished {
			cutShort++
		}
		behind += e.behind
		for _, n := range e.calls {
			calls += n
		}
	}
	rows := slices.SortedFunc(maps.Values(byVersion), compareRows)

	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "version\tepisodes\treturn\t± s.e.\tcalls\tlate\trefused\tfailed\tp50 ms\tp99 ms\tbatch rows\t")
	for _, r := range rows {
		r.write(table)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	for _, r := range rows {
		if r.firstErr != nil {
			fmt.Fprintf(w, "version %s: a call was not served: %v\n", r.version, r.firstErr)
		}
	}
	if cutShort > 0 {
		fmt.Fprintf(w, "%d episodes were cut short; their returns are left out\n", cutShort)
	}
	if behind > 0 {
		fmt.Fprintf(w, "this program itself began %d of %d periods more than a period late: lower --episodes or --hz "+
			"before you blame the server\n", behind, calls)
	}
	return nil
}

func (r *row) add(e *episode) {
	if e.finished {
		r.returns = append(r.returns, e.sum)
	}
	for i, n := range e.calls {
		r.calls[i] += n
	}
	r.latencies = append(r.latencies, e.latencies...)
	r.rows += e.rows
	r.firstErr = cmp.Or(r.firstErr, e.firstErr)
}

func (r *row) write(w io.Writer) {
	mean, standardError := meanAndError(r.returns)
	slices.Sort(r.latencies)
	calls := 0
	for _, n := range r.calls {
		calls += n
	}
	fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t\n", r.version, len(r.returns), number(mean, 1),
		number(standardError, 1),
		calls, r.calls[late], r.calls[refused], r.calls[failed],
		number(percentile(r.latencies, 0.50), 2), number(percentile(r.latencies, 0.99), 2),
		number(float64(r.rows)/float64(r.calls[answered]), 2))
}

// compareRows puts numbers in their order before words.
func compareRows(a, b *row) int {
	x, errX := strconv.ParseInt(a.version, 10, 64)
	y, errY := strconv.ParseInt(b.version, 10, 64)
	switch {
	case errX == nil && errY == nil:
		return cmp.Compare(x, y)
	case errX == nil:
		return -1
	case errY == nil:
		return 1
	}
	return cmp.Compare(a.version, b.version)
}

// meanAndError returns the mean and its standard error; NaN where there are too few values.
func meanAndError(vs []float64) (mean, standardError float64) {
	n := float64(len(vs))
	for _, v := range vs {
		mean += v / n
	}
	if len(vs) == 0 {
		mean = math.NaN()
	}
	squares := 0.0
	for _, v := range vs {
		squares += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(squares / (n - 1) / n)
}

// percentile returns the smallest of the sorted values that at least a share p of them does not exceed, in
// milliseconds; NaN where there are none.
func percentile(sorted []time.Duration, p float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return float64(sorted[max(int(math.Ceil(p*float64(len(sorted)))), 1)-1]) / float64(time.Millisecond)
}

// number writes a number; a dash stands for one that cannot be known.
func number(v float64, decimals int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}
