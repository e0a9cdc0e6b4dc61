package loadgen

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// text prints the report for people: what was sent, the tables, and then remarks that put the figures in doubt.
func (r *Report) text(to io.Writer) error {
	out := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "%s over %s, %d connections, %.4g s after a warm-up of %.4g s\n", r.Target, r.Protocol, r.Connections,
		r.DurationS, r.WarmupS)
	for i := range r.Streams {
		fmt.Fprintf(out, "%s\n", r.Streams[i].about())
	}
	if r.Interrupted {
		fmt.Fprintln(out, "interrupted: the figures are of what was measured until then")
	}
	fmt.Fprintln(out, "\nstream\tanswers/s\trows/s\tgoodput/s\tin time\tp50 ms\tp90\tp95\tp99\tp99.9\tp99.99\tmax\t")
	for i := range r.Streams {
		s := &r.Streams[i]
		fmt.Fprintf(out, "%s\t%.1f\t%.1f\t%.1f\t%.3f %%\t%s\t\n", s.Name, s.AnswersPS, s.RowsPS, s.GoodputPS,
			100*s.InTime, s.LatencyMs.row())
	}
	// Servers of other protocols tell nothing of a request's way.
	if slices.ContainsFunc(r.Streams, told) {
		fmt.Fprintln(out, "\nin the server\tmean ms\tp50\tp90\tp95\tp99\tp99.9\tp99.99\tmax\t")
	}
	for i := range r.Streams {
		s := &r.Streams[i]
		if !told(*s) {
			continue
		}
		fmt.Fprintf(out, "%s, queue\t%.3f\t%s\t\n", s.Name, s.Server.QueueMs.Mean, s.Server.QueueMs.row())
		fmt.Fprintf(out, "%s, compute\t%.3f\t%s\t\n", s.Name, s.Server.ComputeMs.Mean, s.Server.ComputeMs.row())
	}
	fmt.Fprintln(out)
	for i := range r.Streams {
		r.Streams[i].remarks(out)
	}
	if r.CPU != nil {
		r.CPU.write(out)
	}
	if r.Find != nil {
		r.Find.write(out)
	}
	return out.Flush()
}

// told reports whether the answers told their way through the server.
func told(s StreamReport) bool { return s.Server.BatchRows > 0 }

// row gives the quantiles as cells of a table.
func (q *Quantiles) row() string {
	var cells []string
	for _, ms := range []float64{q.P50, q.P90, q.P95, q.P99, q.P999, q.P9999, q.Max} {
		cells = append(cells, fmt.Sprintf("%.3f", ms))
	}
	return strings.Join(cells, "\t")
}

// about says what the stream is.
func (s *StreamReport) about() string {
	how := fmt.Sprintf("%d callers", s.Callers)
	switch {
	case s.Loop == "closed":
	case s.Rate > 0:
		how = fmt.Sprintf("%.6g requests a second, %s arrivals", s.Rate, s.Arrivals)
		if s.CV > 0 {
			how += fmt.Sprintf(" of CV %g", s.CV)
		}
	default:
		how = "requests of a trace"
	}
	deadline := "no deadline"
	if s.DeadlineMs > 0 {
		deadline = fmt.Sprintf("deadline %.6g ms", s.DeadlineMs)
	}
	if s.PatienceMs > 0 {
		deadline += fmt.Sprintf(", given up after %.6g ms", s.PatienceMs)
	}
	if s.Retries > 0 {
		deadline += fmt.Sprintf(", sent again up to %d times", s.Retries)
	}
	version := ""
	if s.Version != "" {
		version = " version " + s.Version
	}
	return fmt.Sprintf("%s: %s%s, %s, %s, priority %s", s.Name, s.Model, version, how, deadline, s.Priority)
}

// remarks prints what is not in a table.
func (s *StreamReport) remarks(out io.Writer) {
	var counts []string
	for _, code := range slices.Sorted(maps.Keys(s.Codes)) {
		counts = append(counts, fmt.Sprintf("%s %d", code, s.Codes[code]))
	}
	fmt.Fprintf(out, "%s: %d sent: %s\n", s.Name, s.Sent, strings.Join(counts, ", "))
	for _, code := range slices.Sorted(maps.Keys(s.FirstErrors)) {
		fmt.Fprintf(out, "%s: the first %s: %s\n", s.Name, code, s.FirstErrors[code])
	}
	// Without retries each request that ended took one attempt.
	if s.Attempts > s.Sent-s.Unanswered {
		fmt.Fprintf(out, "%s: they took %d attempts\n", s.Name, s.Attempts)
	}
	if s.RefusedMs != nil {
		fmt.Fprintf(out, "%s: refused within %.3f ms at p50, %.3f ms at p99\n", s.Name, s.RefusedMs.P50, s.RefusedMs.P99)
	}
	if s.Unanswered > 0 {
		fmt.Fprintf(out, "%s: %d had no answer when the run was over; only the number sent counts them\n", s.Name,
			s.Unanswered)
	}
	if told(*s) {
		fmt.Fprintf(out, "%s: %.1f rows in the execution of a request, %.1f us of device time for each\n", s.Name,
			s.Server.BatchRows, s.Server.DeviceUs)
	}
	if s.LagMs != nil {
		fmt.Fprintf(out, "%s: sent %.3f ms later than due at p50, %.3f ms at p99, %.3f ms at most\n", s.Name, s.LagMs.P50,
			s.LagMs.P99, s.LagMs.Max)
	}
	switch {
	case s.Unsteady != "":
		fmt.Fprintf(out, "%s: NOT STEADY: %s; give it a longer --warmup, or less load\n", s.Name, s.Unsteady)
	case len(s.Thirds) == 0:
		fmt.Fprintf(out, "%s: too short to tell whether it was steady\n", s.Name)
	default:
		fmt.Fprintf(out, "%s: the thirds of the run are alike\n", s.Name)
	}
	if s.Doubtful != "" {
		fmt.Fprintf(out, "%s: DOUBTFUL: %s\n", s.Name, s.Doubtful)
	}
}

// write prints the processor time as a table.
func (c *CPUReport) write(out io.Writer) {
	fmt.Fprintf(out, "\nprocessor time of a request\tuser us\tsystem us\ttogether\t\n")
	for _, of := range []struct {
		name string
		CPUTime
	}{{"server", c.Server}, {"its children", c.Children}, {"this program", c.Client}} {
		fmt.Fprintf(out, "%s\t%.1f\t%.1f\t%.1f\t\n", of.name, of.UserUs, of.SystemUs, of.total())
	}
}

// write prints the steps of the search, and its result.
func (f *FindReport) write(out io.Writer) {
	fmt.Fprintln(out)
	for i := range f.Steps {
		fmt.Fprintln(out, f.Steps[i].String())
	}
	if f.Rate > 0 {
		fmt.Fprintf(out, "the objective is met up to %.1f requests a second; the figures above are of that rate\n", f.Rate)
	}
	if f.ClientLate {
		fmt.Fprintln(out, "DOUBTFUL: where it was missed first, this program itself was late: the server may do more")
	}
}
