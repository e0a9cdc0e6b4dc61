package loadgen

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/weftserve/weft/sharedsched/arrivals"
)

// maxScheduled bounds the memory of a schedule: 800 MB, at 8 bytes a request.
const maxScheduled = 100_000_000

// schedule returns when the requests of an open loop are due, as times since the warm-up begins, in order. It is fixed
// before the run, so that a slow server changes nothing of it.
func (s *Stream) schedule(span time.Duration) ([]time.Duration, error) {
	if s.Trace != "" {
		return readTrace(s.Trace, span)
	}
	if n := s.Rate * span.Seconds(); n > maxScheduled {
		return nil, fmt.Errorf("stream %s: %.0f requests in %v; expected at most %d: lower the rate or the duration",
			s.Name, n, span, maxScheduled)
	}
	// Each time is computed from its number: a sum of gaps would add up their rounding.
	if s.Arrivals == constant {
		var due []time.Duration
		for i := 0; ; i++ {
			at := time.Duration(float64(i) / s.Rate * float64(time.Second))
			if at >= span {
				return due, nil
			}
			due = append(due, at)
		}
	}
	// Poisson arrivals are the case of no CV. The second number of the seed is one that no payload uses.
	return arrivals.Gamma{Rate: s.Rate, CV: s.CV}.Times(span, rand.New(rand.NewPCG(s.Seed, 1)), nil), nil
}

// readTrace reads the times of a trace in seconds, one a line, and leaves out those after the run. Empty lines and
// lines that begin with # are skipped.
func readTrace(path string, span time.Duration) ([]time.Duration, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	defer file.Close()
	var due []time.Duration
	last := 0.0
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		at, err := strconv.ParseFloat(text, 64)
		// The comparison is false for NaN, too. Up to a billion seconds fit a time.Duration.
		if err != nil || !(at >= last && at < 1e9) {
			return nil, fmt.Errorf("%s:%d: expected seconds since the beginning, not less than %v of the line before, found %q",
				path, n, last, text)
		}
		last = at
		if d := time.Duration(at * float64(time.Second)); d < span {
			due = append(due, d)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(due) == 0 {
		return nil, fmt.Errorf("%s: there is no time within %v, the warm-up and the duration; expected one a line", path,
			span)
	}
	return due, nil
}
