package replay

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weftserve/weft/server/rollout"
)

// report is what `weft replay` prints. It is made once all requests have ended, so that it reads everything without a
// lock.
type report struct {
	recording     *recording
	comparison    *comparison
	sender        *sender
	took          time.Duration
	asked, target string
	verdict       rollout.Report
}

// judge asks the gate, and adds the check of how much could be compared. The worst check decides.
func (r *report) judge(g rollout.Gate, maxUncompared float64) {
	hurried := ""
	// The same text explains every check that it weakens.
	if r.sender.hurried() {
		hurried = "the requests came faster than they were recorded; replay them with --speed recorded and " +
			"without --max-gap to tell"
	}
	r.verdict = r.comparison.judge(g, hurried)
	beyond := &coverage{
		sent: int64(r.sender.sent), withoutInputs: r.recording.withoutInputs, notRecorded: r.recording.reader.Missed(),
		failedThen: int64(r.sender.sent) - r.comparison.answeredThen, mismatched: r.comparison.mismatched,
		damaged: r.recording.damaged, unsent: r.comparison.unsent[failedStep],
		before: r.comparison.unsent[begunOff], after: r.comparison.unsent[afterLost],
	}
	beyond.failedThen += beyond.unsent
	check := beyond.check(maxUncompared)
	r.verdict.Checks = append(r.verdict.Checks, check)
	r.verdict.Verdict = max(r.verdict.Verdict, check.Verdict)
}

// print writes the report as text.
func (r *report) print(to io.Writer) error {
	out := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	r.head(out)
	r.outputs(out)
	r.latency(out)
	r.codes(out)
	r.gate(out)
	return out.Flush()
}

// head says what was sent, and what the figures do not show: late requests, cut pauses, and requests that are missing.
func (r *report) head(out io.Writer) {
	rec := r.recording
	span := rec.to.Sub(rec.from)
	fmt.Fprintf(out, "%d requests of %q, recorded %s within %v, were sent to %s at %s within %v, speed %v\n",
		r.sender.sent, rec.model,
		rec.from.UTC().Format(time.DateTime+" UTC"), span.Round(time.Millisecond), r.asked, r.target,
		r.took.Round(time.Millisecond), r.sender.speed)
	fmt.Fprintf(out, "answered then by %s; now by %s\n", versionsOf(r.comparison.versions, 0),
		versionsOf(r.comparison.versions, 1))
	if late := r.sender.late.ascending(); len(late) > 0 {
		fmt.Fprintf(out, "sent late by %s ms at the 99th percentile, %s ms at most\n",
			milliseconds(percentile(late, 0.99)), milliseconds(percentile(late, 1)))
	}
	if n := r.sender.gaps; n > 0 {
		fmt.Fprintf(out, "%d pauses were cut short, by %v in all\n", n, r.sender.cut.Round(time.Millisecond))
	}
	// A sample replays less load than there was, so that latencies may be better for that alone.
	if sample := rec.reader.Header().Sample; sample < 1 {
		fmt.Fprintf(out, "the recording is a sample of %.3g %% of the traffic: the load was higher then\n", 100*sample)
	}
	if n := rec.reader.Missed(); n > 0 {
		fmt.Fprintf(out, "%d requests were not recorded, for lack of room: the load was higher then\n", n)
	}
	if n := rec.reader.MissedBefore(); n > 0 {
		fmt.Fprintf(out, "%d requests were not recorded before the first of these files began\n", n)
	}
	if rec.others > 0 {
		fmt.Fprintf(out, "%d requests of other models or versions were left out\n", rec.others)
	}
	if rec.withoutInputs > 0 {
		fmt.Fprintf(out, "%d requests were recorded without their inputs, and not sent\n", rec.withoutInputs)
	}
	for _, why := range slices.Sorted(maps.Keys(r.comparison.unsent)) {
		fmt.Fprintf(out, "%d requests %s, and were not sent\n", r.comparison.unsent[why], why)
	}
	if rec.damaged > 0 {
		fmt.Fprintf(out, "%d of %d files could not be read to their end\n", rec.damaged, len(rec.reader.Files()))
	}
}

// versionsOf lists how many requests each version answered, then (0) or now (1).
func versionsOf(versions map[int64]*[2]int64, which int) string {
	var all []string
	for _, version := range slices.Sorted(maps.Keys(versions)) {
		if n := versions[version][which]; n > 0 {
			all = append(all, fmt.Sprintf("version %d (%d)", version, n))
		}
	}
	return cmp.Or(strings.Join(all, ", "), "none")
}

// outputs prints a row for each output. Argmax says nothing of outputs with one element in each row.
func (r *report) outputs(out io.Writer) {
	c := r.comparison
	fmt.Fprintf(out, "\n%d answers compared, %d agree within %s\n", c.compared, c.agreed, c.tolerances.text())
	if c.compared == 0 {
		return
	}
	fmt.Fprintln(out, "output\tagreed\tmax absolute\tmax relative\tmin cosine\tmean cosine\tsame argmax\tother type "+
		"or shape")
	for _, o := range c.outputs.Outputs() {
		cosines, argmax := "-\t-", "-"
		if o.Cosines > 0 {
			cosines = fmt.Sprintf("%.6f\t%.6f", o.MinCosine, o.MeanCosine)
		}
		if o.Rows > 0 && c.several[o.Name] {
			argmax = fmt.Sprintf("%.2f %%", 100*o.ArgmaxAgreement)
		}
		fmt.Fprintf(out, "%s\t%d\t%.3g\t%.3g\t%s\t%s\t%d\n", o.Name, o.Agreed, o.MaxAbsolute, o.MaxRelative, cosines,
			argmax, o.Mismatched)
	}
}

// latency prints the percentiles of where the time went. The round trip was not recorded.
func (r *report) latency(out io.Writer) {
	fmt.Fprintln(out, "\nms\tthen p50\tp95\tp99\tnow p50\tp95\tp99")
	then, now := &r.comparison.recorded, &r.comparison.now
	for _, row := range []struct {
		name      string
		then, now *durations
	}{
		{"queue", &then.queue, &now.queue},
		{"compute", &then.compute, &now.compute},
		{"device", &then.device, &now.device},
		{"round trip", nil, &now.roundTrip},
	} {
		fmt.Fprintf(out, "%s\t%s\t%s\n", row.name, percentiles(row.then), percentiles(row.now))
	}
}

// percentiles returns the cells of a row.
func percentiles(d *durations) string {
	if d == nil || d.seen == 0 {
		return "-\t-\t-"
	}
	sample := d.ascending()
	return strings.Join([]string{
		milliseconds(percentile(sample, 0.5)), milliseconds(percentile(sample, 0.95)),
		milliseconds(percentile(sample, 0.99)),
	}, "\t")
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2f", float64(d)/float64(time.Millisecond))
}

// codes prints how requests ended, and the first failure as an example.
func (r *report) codes(out io.Writer) {
	fmt.Fprintln(out, "\ncode\tthen\tnow")
	for _, code := range slices.Sorted(maps.Keys(r.comparison.codes)) {
		n := r.comparison.codes[code]
		fmt.Fprintf(out, "%s\t%d\t%d\n", code, n[0], n[1])
	}
	if then := r.comparison.answeredThen; len(r.comparison.lost) > 0 {
		var all []string
		sum := int64(0)
		for _, code := range slices.Sorted(maps.Keys(r.comparison.lost)) {
			n := r.comparison.lost[code]
			sum += n
			all = append(all, fmt.Sprintf("%s %d", code, n))
		}
		fmt.Fprintf(out, "of %d requests that were answered then, %d fail now: %s\n", then, sum,
			strings.Join(all, ", "))
	}
	if r.comparison.example != nil {
		fmt.Fprintf(out, "the first failure: %v\n", r.comparison.example)
	}
}

// gate prints the checks and the verdict.
func (r *report) gate(out io.Writer) {
	fmt.Fprintln(out, "\ngate\tverdict\treason")
	for _, check := range r.verdict.Checks {
		fmt.Fprintf(out, "%s\t%v\t%s\n", check.Name, check.Verdict, check.Reason)
	}
	if !slices.ContainsFunc(r.verdict.Checks, func(c rollout.GateCheck) bool { return c.Name == "agreement" }) {
		fmt.Fprintln(out, "agreement\t-\tnot looked at; --min-agreement says what part of the answers must agree")
	}
	fmt.Fprintf(out, "\n%v\n", r.verdict.Verdict)
}
