package shadow

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// maxPairs bounds the pairs that have a summary: of more, the one that was offered nothing for the longest is
	// forgotten, and starts from nothing when it comes back. At some 20 KiB each that is 5 MiB.
	maxPairs = 256
	// maxFailures and maxFailureBytes bound the failures that a summary shows.
	maxFailures     = 8
	maxFailureBytes = 300
)

// Summary says how a shadow compares with the version that answered, since the pair was first seen.
type Summary struct {
	Model                         string
	PrimaryVersion, ShadowVersion int64
	// Offered = Done + Dropped + Failed + Pending, always.
	Offered, Done, Dropped, Failed, Pending int64
	// Skipped counts the requests that were not offered, of those that the primary answered while the traffic named the
	// shadow.
	Skipped int64
	// Agreed counts those of Done all of whose outputs were within the tolerance.
	Agreed  int64
	Outputs []OutputSummary // ascending by name
	// The compute times are those of an even sample of Done, the same requests for both versions.
	PrimaryComputeP50, PrimaryComputeP99 time.Duration
	ShadowComputeP50, ShadowComputeP99   time.Duration
	// Failures are the last few of Failed, shortened, the newest last.
	Failures []string
}

type key struct {
	model           string
	primary, shadow int64
}

// pair holds the counts and samples of a shadow compared with a primary. Everything but key is guarded by Mirror.mu.
type pair struct {
	key
	offered, done, dropped, failed, pending, agreed, skipped int64

	tally    Tally
	prints   []*imprint // of outputs that are numbers
	computes reservoir
	failures []string
	last     uint64 // Mirror.offers when something was last offered
}

// settle counts the end of a pending request.
func (p *pair) settle(v *verdict) {
	p.pending--
	switch v.outcome {
	case Done:
		p.done++
		if v.agreed {
			p.agreed++
		}
		p.tally.Add(v.differences)
		p.computes.add(v.primary, v.shadow)
	case Dropped:
		p.dropped++
	case Failed:
		p.failed++
		if len(p.failures) == maxFailures {
			p.failures = slices.Delete(p.failures, 0, 1)
		}
		p.failures = append(p.failures, shorten(v.err.Error()))
	case Skipped: // it was not pending
	}
}

// unfinished is a summary and the samples that finish needs.
type unfinished struct {
	Summary
	primary, shadow []time.Duration
}

// snapshot takes the parts of a summary that must be taken under the lock.
func (p *pair) snapshot() unfinished {
	return unfinished{
		Summary: Summary{
			Model: p.model, PrimaryVersion: p.key.primary, ShadowVersion: p.key.shadow,
			Offered: p.offered, Done: p.done, Dropped: p.dropped, Failed: p.failed, Pending: p.pending, Skipped: p.skipped,
			Agreed: p.agreed, Outputs: p.tally.Outputs(), Failures: slices.Clone(p.failures),
		},
		primary: slices.Clone(p.computes.primary), shadow: slices.Clone(p.computes.shadow),
	}
}

// finish does the sorting.
func (u *unfinished) finish() Summary {
	primary, shadow := quantiles(u.primary, 0.5, 0.99), quantiles(u.shadow, 0.5, 0.99)
	u.PrimaryComputeP50, u.PrimaryComputeP99 = primary[0], primary[1]
	u.ShadowComputeP50, u.ShadowComputeP99 = shadow[0], shadow[1]
	return u.Summary
}

// shorten makes a text valid UTF-8, as protocol messages demand, and cuts it to maxFailureBytes.
func shorten(text string) string { return cutTo(text, maxFailureBytes) }

func cutTo(text string, most int) string {
	const cut = "..."
	text = strings.ToValidUTF8(text, "�")
	if len(text) <= most {
		return text
	}
	end := most - len(cut)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + cut
}
