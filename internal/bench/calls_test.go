package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weftserve/weft/sharedsched"
)

// calls are the calls of a load with their ends, in order of arrival.
type calls []call

type call struct {
	at   time.Duration // when it came, since the beginning
	took time.Duration
	lag  time.Duration // by how much later it was made than it should have been: the client's fault
	end  string        // answered, or why not
}

const (
	answered = "answered"
	expired  = "expired"
)

// ending names how a call ended: the reason of a refusal, that its deadline passed, or the error.
func ending(err error) string {
	if err == nil {
		return answered
	}
	if refusal, is := errors.AsType[*sharedsched.Refusal](err); is {
		return refusal.Reason.String()
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, sharedsched.ErrExpired) {
		return expired
	}
	return err.Error()
}

// between returns the calls that came from one time to another.
func (c calls) between(from, to time.Duration) calls {
	return slices.DeleteFunc(slices.Clone(c), func(k call) bool { return k.at < from || k.at >= to })
}

// within counts the calls that were answered within a time.
func (c calls) within(d time.Duration) int {
	n := 0
	for _, k := range c {
		if k.end == answered && k.took <= d {
			n++
		}
	}
	return n
}

// by counts the calls that were answered within a time d and before a time since the beginning: the device's work until
// then.
func (c calls) by(end, d time.Duration) int {
	n := 0
	for _, k := range c {
		if k.end == answered && k.took <= d && k.at+k.lag+k.took <= end {
			n++
		}
	}
	return n
}

// share is the part that was answered within a time.
func (c calls) share(d time.Duration) float64 { return float64(c.within(d)) / float64(len(c)) }

// quantile returns a quantile of the time that answers took; 0 if there is none.
func (c calls) quantile(q float64) time.Duration {
	var took []time.Duration
	for _, k := range c {
		if k.end == answered {
			took = append(took, k.took)
		}
	}
	return quantile(took, q)
}

func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[min(int(q*float64(len(d))), len(d)-1)]
}

// String says how many ended how, the commonest first, and how long answers took.
func (c calls) String() string {
	type count struct {
		end string
		n   int
	}
	var counts []count
	for _, k := range c {
		i := slices.IndexFunc(counts, func(o count) bool { return o.end == k.end })
		if i < 0 {
			i = len(counts)
			counts = append(counts, count{end: k.end})
		}
		counts[i].n++
	}
	slices.SortStableFunc(counts, func(a, b count) int { return cmp.Compare(b.n, a.n) })
	parts := []string{fmt.Sprintf("%d calls", len(c))}
	for _, o := range counts {
		parts = append(parts, fmt.Sprintf("%d %s", o.n, o.end))
	}
	const grain = 10 * time.Microsecond
	return fmt.Sprintf("%s; p50 %v, p99 %v, slowest %v", strings.Join(parts, ", "),
		c.quantile(0.5).Round(grain), c.quantile(0.99).Round(grain), c.quantile(1).Round(grain))
}
