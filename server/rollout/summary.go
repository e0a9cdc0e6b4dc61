package rollout

import (
	"fmt"
	"strconv"
	"strings"
)

// summarize writes the report's metrics as one sentence, such as "v8 is no worse on success, better on latency; 4,000
// episodes". The worst come first.
func (r *Report) summarize(p *Plan) string {
	var parts []string
	for _, s := range []struct {
		standing Standing
		words    string
	}{{Worse, "worse on "}, {NoWorse, "no worse on "}, {Better, "better on "}, {Undecided, "undecided on "}} {
		var names []string
		for i := range r.Metrics {
			if m := &r.Metrics[i]; m.Standing == s.standing {
				names = append(names, m.title(p.Gate.Outcome))
			}
		}
		if n := len(names); n > 1 {
			names = append(names[:n-2], names[n-2]+" and "+names[n-1])
		}
		if names != nil {
			parts = append(parts, s.words+strings.Join(names, ", "))
		}
	}
	of, unit := r.Metric("failures"), "episodes, or requests without one"
	if o := r.Metric("outcome"); o != nil {
		of, unit = o, "episodes"
	}
	text := fmt.Sprintf("v%d is %s; %s %s", p.CandidateVersion, strings.Join(parts, ", "),
		thousands(of.BaselineCount+of.CandidateCount), unit)
	if r.Split.Mismatch {
		text += fmt.Sprintf("; these numbers mean little, since %s of the episodes went to it where %s were expected",
			thousands(r.Split.Candidate), thousands(int64(r.Split.Expected+0.5)))
	}
	return text + r.leftOut("two_tables", "that saw two tables of the traffic") +
		r.leftOut("same_draw", "whose episode_id was used before")
}

// leftOut says how many episodes are left out for a reason.
func (r *Report) leftOut(reason, words string) string {
	for _, x := range r.Excluded {
		if x.Reason == reason {
			return fmt.Sprintf("; %s %s are left out", thousands(x.Baseline+x.Candidate), words)
		}
	}
	return ""
}

// title names the metric for people.
func (m *Metric) title(outcome string) string {
	switch m.Name {
	case "outcome":
		return outcome
	case "lost":
		return "lost episodes"
	}
	return m.Name
}

// thousands writes a number that is not negative with a comma between groups of three digits.
func thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
