package rollout

import (
	"iter"
	"maps"
	"math"
	"slices"
	"time"
)

// The versions of a rollout, where numbers of both stand side by side.
const (
	baseline = iota
	candidate
)

// Evidence is what a promotion gate judges by. It is kept with the rollout, so that a restart of the server loses about
// keptEvery of it. Manager.mu guards it.
type Evidence struct {
	// Requests are those of the stage, which begins anew after a restart.
	Requests Requests `json:"-"`
	// Of each unit, an episode or a request without one: the part of its requests that failed with a fault of the
	// model, that failed otherwise but for lack of capacity or time, and that took long.
	Errors   paced `json:"errors"`
	Failures paced `json:"failures"`
	Slow     paced `json:"slow"`
	// Alone is the part with faults in units of the candidate since it has all traffic. There is nothing to compare it
	// with then: an outage is everybody's.
	Alone Score `json:"alone"`
	// Disagreement is the part of a unit's shadowed requests that the candidate did not agree on. Shown counts the
	// requests that it might have been shown, by how they ended there.
	Disagreement Score  `json:"disagreement"`
	Shown        counts `json:"shown,omitempty"`
	// Lost has a 1 for each episode that was lost, and a 0 for each that was reported.
	Lost Score `json:"lost"`
	// Outcome has the outcomes within Range. There 0 is the better end and 1 the worse.
	Outcome Score `json:"outcome"`
	Range   Range `json:"range"`
	// P95 is about that of the compute times, by side.
	P95 [2]percentile `json:"p95"`

	// Passed are the checks that said Promote when the candidate got all traffic. What still comes from before holds
	// nothing.
	Passed []string `json:"passed,omitempty"`

	// Drawn are the draws of the episodes that count, so that none counts again, also after a restart. Those count whose
	// last Thin bits are 0.
	Drawn    []uint32    `json:"drawn,omitempty"`
	Thin     int         `json:"thin,omitempty"`
	Fates    [2]Episodes `json:"fates"`
	Split    division    `json:"split"`
	Excluded counts      `json:"excluded,omitempty"`
}

// ask has each score bet on the limit that the promotion gate sets for it.
func (e *Evidence) ask(g *Gate) {
	e.Errors.at(g.MaxErrorRate)
	e.Slow.at(g.MaxErrorRate)
	e.Failures.at(g.MaxFailureIncrease)
	e.Lost.At, e.Disagreement.At, e.Alone.At = g.MaxLostIncrease, 1-g.MinAgreement, mostAlone
	e.askOutcome(g)
}

// askOutcome has the score of the outcome look at the margin, as a part of its range: no difference is larger than 1.
// It is called again when the range becomes known or is widened.
func (e *Evidence) askOutcome(g *Gate) {
	if e.Range.known() {
		e.Outcome.At = min(1, g.Margin/(e.Range.High-e.Range.Low))
	}
}

// mostAlone is which part of a candidate's requests may have faults while it has all traffic and nothing compares:
// half, because an outage has faults as well, and there is no baseline to tell it by.
const mostAlone = 0.5

// paced is a Score of the first requests of units, and one of units that are over: a candidate that fails is not waited
// for until its episodes end.
type paced [2]Score

const (
	// The paces of a score: of the first requests of units, and of units that are over.
	first = iota
	whole
)

// early is how many requests of a unit are its first. An episode may last for hours; so many of its requests tell soon
// whether the candidate fails.
const early = 16

func (p *paced) at(difference float64) { p[first].At, p[whole].At = difference, difference }

// Requests are how requests ended.
type Requests struct {
	Answered [2]int64 // the ones that the split led to a version, by side
	Codes    counts   // all, by the names of gRPC codes
}

// counts count something of both versions, by name.
type counts map[string][2]int64

// add counts one.
func (c *counts) add(name string, side int) {
	if *c == nil {
		*c = counts{}
	}
	n := (*c)[name]
	n[side]++
	(*c)[name] = n
}

// sorted returns the counts that are not zero, ascending by name.
func (c counts) sorted() iter.Seq2[string, [2]int64] {
	return func(yield func(string, [2]int64) bool) {
		for _, name := range slices.Sorted(maps.Keys(c)) {
			if n := c[name]; n != [2]int64{} && !yield(name, n) {
				return
			}
		}
	}
}

// Episodes counts one version's episodes by their fate. It counts the ones that began in stages in which both versions
// get some.
type Episodes struct {
	Begun      int64 `json:"begun"`
	Reported   int64 `json:"reported"`   // with the outcome that decides
	Waiting    int64 `json:"waiting"`    // reported, but earlier ones are unfinished
	Unfinished int64 `json:"unfinished"` // not reported, but somebody may do so still
	Lost       int64 `json:"lost"`       // the rest
}

// Ending is how one request ended, as server/predict tells it. Fault and Spared are never both set. A request with
// neither that was not answered failed otherwise, such as by an invalid input: it counts against the version, too, if
// in another check.
type Ending struct {
	// Code is the name of its gRPC code.
	Code string
	// Episode is that of the request, "" for none.
	Episode string
	// Drawn: the split led to the version, at that moment, and each version that has a part took what it was led to.
	Drawn  bool
	Routed time.Time // zero: just now
	// Fault: of the model. Spared: it ended for lack of capacity or time, or its caller has ended it.
	Fault, Spared bool
	// Compute is how long the model took for the answer. It is not looked at where there was none.
	Compute time.Duration
}

// Answered is the code of requests that were answered.
const Answered = "OK"

// unit counts the requests of an episode, or one request. Asked is the sum of answered, faults and failed. Slow ones,
// by the promotion gate's limit of compute time, are among the answered.
type unit struct {
	asked, faults, failed int64 // of the requests that count
	answered, slow        int64
	shadowed, disagreed   int64
}

// count counts a request, unless it is spared. The callers see to it that it is one that the split led to the version.
func (u *unit) count(e *Ending, slow bool) {
	if e.Spared {
		return
	}
	u.asked++
	switch {
	case e.Code == Answered:
		u.answered++
		if slow {
			u.slow++
		}
	case e.Fault:
		u.faults++
	default:
		u.failed++
	}
}

// add adds what a unit says to the scores of first requests or of whole units. Part is the probability with which the
// candidate had got the unit. At 1 there is no other version to compare with: only faults count then, once for each
// unit.
func (e *Evidence) add(pace, side int, part float64, u *unit) {
	if part == 1 {
		if side == candidate && u.asked > 0 && pace == whole {
			e.Alone.alone(ratio(u.faults, u.asked))
		}
		return
	}
	if u.asked > 0 {
		e.Errors[pace].Add(side, part, ratio(u.faults, u.asked), "")
		e.Failures[pace].Add(side, part, ratio(u.failed, u.asked), "")
	}
	if u.answered > 0 && e.P95[baseline].known() {
		e.Slow[pace].Add(side, part, ratio(u.slow, u.answered), "")
	}
}

// ratio returns a part of some, which must not be 0.
func ratio(part, of int64) float64 { return float64(part) / float64(of) }

// Excluded counts episodes, or reports of them, that no interval of the outcome contains. The reasons are:
//
// lost: it ended without a report. unfinished: it goes on, or may still be reported. waiting: it was reported, and
// waits for episodes that began before it. late: it went on for longer than others wait for it, which has nothing to do
// with a request that was answered after its target. outside: a report of an episode that is not known, or of the other
// version. no_room: too many waited when it began, or have counted. repeated: a report of an episode that had one.
// same_draw: its draw has counted already, as that of a name which is used again. two_tables: two tables of the traffic
// led it, or it left its version. learning: it told the range of the outcome.
type Excluded struct {
	// Reason is lost, unfinished, waiting, late, outside, no_room, repeated, same_draw, two_tables or learning.
	Reason    string `json:"reason"`
	Baseline  int64  `json:"baseline"`
	Candidate int64  `json:"candidate"`
}

// excluded lists what does not count.
func (e *Evidence) excluded() (all []Excluded) {
	b, c := &e.Fates[baseline], &e.Fates[candidate]
	of := counts{
		"lost": {b.Lost, c.Lost}, "unfinished": {b.Unfinished, c.Unfinished}, "waiting": {b.Waiting, c.Waiting},
	}
	maps.Copy(of, e.Excluded)
	for why, n := range of.sorted() {
		all = append(all, Excluded{why, n[baseline], n[candidate]})
	}
	return all
}

// Range is where outcomes lie: as the promotion gate declares, or as they did so far.
type Range struct {
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	Declared bool    `json:"declared,omitempty"`
	// Seen counts the outcomes that told it, from Least to Greatest, since it was known last.
	Seen     int     `json:"seen,omitempty"`
	Least    float64 `json:"least,omitempty"`
	Greatest float64 `json:"greatest,omitempty"`
	// Outside counts the outcomes that lay outside, and Widened how often there was another range for that. The
	// evidence began anew each time.
	Outside int `json:"outside,omitempty"`
	Widened int `json:"widened,omitempty"`
}

const (
	// learning is how many outcomes tell the range where it is not declared. They do not count otherwise: a range must be
	// fixed before the numbers come that are judged in it.
	learning = 30
	// leastUndeclared is how many episodes of each version there must be then: what happens in one of a hundred has
	// been seen in so many with a probability of 0.95.
	leastUndeclared = 300
)

// known reports whether there is a range, wide enough to tell numbers within it apart.
func (r *Range) known() bool {
	return r.High-r.Low > 1e-9*max(math.Abs(r.Low), math.Abs(r.High), 1e-100)
}

// learn takes in an outcome where the range is not declared, and reports whether it counts in the range that there is.
// Every second one that lies outside begins another range: one alone may be a mistake of who reports, and counts as the
// end of the range that it lies beyond.
func (r *Range) learn(outcome float64) (counts bool) {
	known := r.known()
	if known && (r.Low > outcome || outcome > r.High) {
		if r.Outside++; r.Outside%2 == 1 {
			return true
		}
		r.Widened++
	} else if known {
		return true
	}
	// All outcomes that told the range so far tell it. Once there were enough, one more makes another range at once.
	if r.Seen == 0 {
		r.Least, r.Greatest = outcome, outcome
	}
	r.Least, r.Greatest = min(r.Least, outcome), max(r.Greatest, outcome)
	if r.Seen++; r.Seen < learning {
		return false
	}
	width := r.Greatest - r.Least
	r.Low, r.High = r.Least-width, r.Greatest+width
	if r.Least == 0 && r.Greatest == 1 { // successes
		r.Low, r.High = 0, 1
	}
	return false
}

// place returns where an outcome lies in the range, from 0 at its lower end to 1.
func (r *Range) place(outcome float64) float64 {
	return max(0, min(1, (outcome-r.Low)/(r.High-r.Low)))
}

// alpha is the part of a promotion gate's for the range that there is: all of them together have all of it. The parts
// are 1/(k(k+1)) for the k-th range, whose sum is 1.
func (r *Range) alpha(alpha float64) float64 {
	if r.Declared {
		return alpha
	}
	k := float64(r.Widened + 1)
	return alpha / (k * (k + 1))
}

// percentile follows the 95th percentile of numbers (Robbins, Monro: A stochastic approximation method, Annals of
// Mathematical Statistics 22, 1951): each above it moves it up, and each below down, by steps in the logarithm whose
// mean is 0 where it is right. Of the first ones it is exact. It takes a constant amount of memory, however many
// numbers come.
type percentile struct {
	Count int64     `json:"count"`
	Log   float64   `json:"log"`             // of the percentile in ns
	First []float64 `json:"first,omitempty"` // logarithms
}

// firsts is how many numbers there must be before a percentile is known: of fewer, the 95th percentile is one of the
// two largest.
const firsts = 40

func (p *percentile) known() bool { return p.Count >= firsts }

// add counts a number.
func (p *percentile) add(x time.Duration) {
	const q = 0.95
	log := math.Log(float64(max(x, 1)))
	p.Count++
	switch {
	case p.Count < firsts:
		p.First = append(p.First, log)
	case p.Count == firsts:
		p.First = append(p.First, log)
		slices.Sort(p.First)
		p.Log, p.First = p.First[int(math.Ceil(q*firsts))-1], nil
	case log > p.Log:
		p.Log += q * p.step()
	default:
		p.Log -= (1 - q) * p.step()
	}
}

// step gets smaller, but not below a hundredth, so that the percentile follows a drift.
func (p *percentile) step() float64 { return max(0.01, 2/math.Pow(float64(p.Count), 0.6)) }

// value returns the percentile, 0 where it is not known.
func (p *percentile) value() time.Duration {
	if !p.known() {
		return 0
	}
	return time.Duration(math.Exp(p.Log))
}

// division is how episodes were divided between the versions, and how they were expected to be: the means and variances
// of the draws of all stages are added up.
type division struct {
	Begun    [2]int64 `json:"begun"`
	Expected float64  `json:"expected"` // of the candidate
	Variance float64  `json:"variance"`
}

// add counts an episode.
func (d *division) add(side int, part float64) {
	d.Begun[side]++
	d.Expected += part
	d.Variance += part * (1 - part)
}

const (
	// suspicious is the p value below which episodes are not divided as they should be.
	suspicious = 0.001
	// fewestExpected is how many episodes of each version must be expected for the chi-square test.
	fewestExpected = 5
)

// Split is how the episodes that began in stages in which both versions get some were divided between them.
type Split struct {
	Baseline  int64 `json:"baseline"`
	Candidate int64 `json:"candidate"`
	// Expected is how many the percentages of the stages give the candidate, on average.
	Expected float64 `json:"candidate_expected"`
	// ChiSquare, of one degree of freedom, and PValue test for a mismatch, at one look; nil while too few are expected.
	ChiSquare *float64 `json:"chi_square,omitempty"`
	PValue    *float64 `json:"p_value,omitempty"`
	Mismatch  bool     `json:"mismatch,omitempty"`
}

// split tests all stages as one: the variance of the sum of the candidate's episodes is the sum of the stages'. Of one
// stage it is the usual test of two counts.
func (d *division) split() Split {
	s := Split{Baseline: d.Begun[baseline], Candidate: d.Begun[candidate], Expected: d.Expected}
	if min(s.Expected, float64(s.Baseline+s.Candidate)-s.Expected) >= fewestExpected {
		off := float64(s.Candidate) - s.Expected
		square := off * off / d.Variance
		p := math.Erfc(math.Sqrt(square / 2))
		s.ChiSquare, s.PValue, s.Mismatch = &square, &p, p < suspicious
	}
	return s
}
