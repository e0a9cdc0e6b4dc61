package loadgen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/weftserve/weft/internal/config"
)

// Objective is what a search asks of each open loop.
type Objective struct {
	Find      bool            `help:"Search for the highest rate that meets --p99 and --in-time, starting at --rate (100)."`
	P99       config.Duration `name:"p99" help:"With --find: largest allowed p99 latency." placeholder:"DURATION"`
	InTime    float64         `default:"0.99" help:"With --find: least fraction answered within --deadline and --patience."`
	Precision float64         `default:"0.05" help:"With --find: relative precision of the rate found."`
}

const (
	// firstRate is where a search begins that is told no rate.
	firstRate = 100
	// least and most bound the factor between the rate that is found and the first one.
	least, most = 1.0 / 64, 1 << 12
)

// check finds the mistakes in the flags of a search.
func (b *Objective) check() config.Faults {
	var faults config.Faults
	if b.P99 > 0 && !b.Find {
		faults.Addf("--p99", "without --find; expected both, to search a rate, or neither")
	}
	if b.Find {
		config.Between(&faults, "--in-time", b.InTime, 0, 1)
		config.Between(&faults, "--precision", b.Precision, 0.001, 1)
	}
	return faults
}

// FindReport is a search, step by step, in the order of its runs.
type FindReport struct {
	P99Ms  float64 `json:"p99_ms,omitempty"` // the objective
	InTime float64 `json:"in_time"`          // the objective
	Rate   float64 `json:"rate"`             // the highest that met it, of all open loops together; 0: none did
	Steps  []Step  `json:"steps"`
	// ClientLate: where the objective was missed first, this program itself was late: the server may do more.
	ClientLate bool `json:"client_late"`
}

// Step is one run of a search, with the worst figures of the open loops.
type Step struct {
	Rate   float64 `json:"rate"`
	P99Ms  float64 `json:"p99_ms"`
	InTime float64 `json:"in_time"`
	Met    bool    `json:"met"`
	Late   bool    `json:"client_late"`
}

// String is the line that is printed once the step has ended, and again in the report.
func (s *Step) String() string {
	met := "met"
	if !s.Met {
		met = "MISSED"
		if s.Late {
			met += ", but this program itself was late"
		}
	}
	return fmt.Sprintf("%.1f requests a second: p99 %.3f ms, %.3f %% in time: %s", s.Rate, s.P99Ms, 100*s.InTime, met)
}

// find searches the highest rate that meets the objective, and returns the report of the best step. If no step met it,
// it returns the report of the last one, with an error. All open loops keep the ratio of their rates; closed loops run
// beside them as they are.
func (b *bench) find(ctx context.Context) (*Report, error) {
	var open []*load
	var rates []float64
	for _, l := range b.loads {
		switch {
		case l.closed():
		case l.Trace != "":
			return nil, fmt.Errorf("stream %s: a trace has its own rate; --find expects open loops with a rate", l.Name)
		default:
			open, rates = append(open, l), append(rates, l.Rate)
		}
	}
	if len(open) == 0 {
		return nil, errors.New("--find: there is no open loop; expected a rate instead of callers")
	}
	found := &FindReport{P99Ms: milliseconds(time.Duration(b.o.P99)), InTime: b.o.InTime}
	var best, last *Report
	highest, err := search(b.o.Precision, func(factor float64) (bool, error) {
		for i, l := range open {
			// The rate is a field of the stream, from which the next schedule is made.
			l.Rate = rates[i] * factor
		}
		r, err := b.measure(ctx)
		if err != nil {
			return false, err
		}
		last = r
		// An interrupted run has too few answers to be judged.
		if r.Interrupted {
			return false, errInterrupted
		}
		step := b.o.judge(r)
		found.Steps = append(found.Steps, step)
		fmt.Fprintln(b.errs, step.String())
		// Rates that meet the objective ascend in a search, so that the latest such step is the best.
		if step.Met {
			best, found.Rate = r, step.Rate
		}
		return step.Met, nil
	})
	// An interrupted search has a result too: the best step so far.
	interrupted := errors.Is(err, errInterrupted)
	if err != nil && !interrupted {
		return nil, err
	}
	if best == nil {
		best = last
	}
	best.Interrupted = interrupted
	// The lowest rate that missed is the one that bounds the result. If this program was late there, so is the bound.
	missed := math.Inf(1)
	for _, s := range found.Steps {
		if !s.Met && s.Rate < missed {
			missed, found.ClientLate = s.Rate, s.Late
		}
	}
	best.Find = found
	if highest == 0 && !interrupted {
		return best, fmt.Errorf("no rate from %.3g requests a second on meets the objective; expect less of it (--p99, "+
			"--in-time, the deadlines), or begin with a lower --rate", missed)
	}
	return best, nil
}

// errInterrupted ends a search whose run was cut short.
var errInterrupted = errors.New("interrupted")

// judge compares a run with the objective. The worst of several open loops decides: all of them must meet it. A run
// without any answer, or with requests that never ended, misses it whatever the percentiles are.
func (b *Objective) judge(r *Report) Step {
	step := Step{InTime: 1, Met: true}
	for i := range r.Streams {
		s := &r.Streams[i]
		if s.Loop != "open" {
			continue
		}
		step.Rate += s.Rate
		step.P99Ms, step.InTime = max(step.P99Ms, s.LatencyMs.P99), min(step.InTime, s.InTime)
		step.Late = step.Late || s.Doubtful != ""
		tooSlow := b.P99 > 0 && s.LatencyMs.P99 > milliseconds(time.Duration(b.P99))
		if s.Codes[codes.OK.String()] == 0 || s.Unanswered > 0 || s.InTime < b.InTime || tooSlow {
			step.Met = false
		}
	}
	return step
}

// search returns the highest factor for which ok holds, to a relative precision, or 0 if there is none down to least.
// It doubles or halves the factor until ok changes, and then bisects by the geometric mean, since rates span orders of
// magnitude. It tries no factor twice: each costs a run.
func search(precision float64, ok func(float64) (bool, error)) (float64, error) {
	low, high := 0.0, 0.0 // ok, and not ok; 0: none is known
	for at := 1.0; ; {
		met, err := ok(at)
		if err != nil {
			return low, err
		}
		if met {
			low = at
		} else {
			high = at
		}
		switch {
		// It ends at the bounds of the search, or once both sides are close enough.
		case high == 0 && low >= most, low == 0 && high <= least, low > 0 && high > 0 && high/low <= 1+precision:
			return low, nil
		case high == 0:
			at = 2 * low
		case low == 0:
			at = high / 2
		default:
			at = math.Sqrt(low * high)
		}
	}
}

// curve returns the steps by their rates, for a chart.
func (f *FindReport) curve() curve {
	c := curve{label: "p99"}
	byRate := func(a, b Step) int { return cmp.Compare(a.Rate, b.Rate) }
	for _, s := range slices.SortedFunc(slices.Values(f.Steps), byRate) {
		c.x, c.y = append(c.x, s.Rate), append(c.y, s.P99Ms)
	}
	return c
}
