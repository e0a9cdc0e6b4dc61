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
	// Skipped counts the requests that the primary answered while the traffic named the shadow, and that were not
	// offered.
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

// key names a shadow, and the version that it is compared with.
type key struct {
	model           string
	primary, shadow int64
}

// pair holds the counts and samples of a shadow compared with a primary. Everything but key is guarded by Mirror.mu.
type pair struct {
	key
	Summary  // without Outputs and compute times, which Mirror.Summaries adds
	tally    Tally
	prints   map[string]*imprint // by output, for the outputs that are numbers
	computes reservoir
	last     uint64 // Mirror.clock when something was last offered
}

// settle counts the end of a pending request. The caller holds Mirror.mu.
func (p *pair) settle(v *verdict) {
	p.Pending--
	switch v.Outcome {
	case Done:
		p.Done++
		if v.Agreed {
			p.Agreed++
		}
		p.tally.Add(v.differences)
		p.computes.add(v.primary, v.shadow)
	case Dropped:
		p.Dropped++
	case Failed:
		p.Failed++
		if len(p.Failures) == maxFailures {
			p.Failures = slices.Delete(p.Failures, 0, 1)
		}
		p.Failures = append(p.Failures, v.cause)
	case Skipped: // it turned out that it was not to be offered
		p.Offered--
		p.Skipped++
	}
}

// shorten makes a text valid UTF-8, as protocol messages demand, and cuts it to so many bytes. It does not cut within a
// character.
func shorten(text string, most int) string {
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
