package rollout

import (
	"maps"
	"math"
	"slices"
)

// Score is the evidence on the difference δ between the mean of a number in units that a fair draw gave to the
// candidate and in the units that it gave to the baseline. The number is from 0 to 1. docs/internals/evidence.md
// explains the test.
//
// Unit i goes to the candidate (A_i = 1, else 0) with probability p_i, whatever its numbers would be there and here. It
// gives Y_i = (A_i - p_i)(r_i - c_i)/b_i for its number r_i, and any c_i from 0 to 1 that was fixed before. b_i
// makes Y_i lie from -1 to 1. The mean of Y_i is p_i(1-p_i)/b_i·δ_i, whatever c_i is, and however δ_i and the level
// drift from unit to unit. So S = ΣY_i less its mean δ·I, with I = Σp_i(1-p_i)/b_i, is a martingale. With V = ΣY_i²,
//
//	exp(λ(S - δI) - ψ(λ)V),  ψ(λ) = -log(1-λ) - λ,  0 < λ < 1
//
// is a supermartingale that starts at 1 (Fan, Grama, Liu: Exponential inequalities for martingales with applications,
// Electronic Journal of Probability 20, 2015; Howard, Ramdas, McAuliffe, Sekhon: Time-uniform, nonparametric,
// nonasymptotic confidence sequences, Annals of Statistics 49, 2021, theorem 4), and so is its average over several λ.
// It ever reaches 1/alpha with probability alpha at most (Ville). That gives an interval of δ which may be looked at as
// often as one likes. That it rests on the draw alone is the idea of design-based confidence sequences (Ham, Bojinov,
// Lindon, Tingley, 2022, arXiv 2210.08639).
//
// c_i is the mean that both versions had lately, each weighted by the other's part: it makes V least, and changes
// nothing else.
type Score struct {
	Sums

	// At is the difference that is of interest: whether δ is above or below it is told sooner than the bounds tell, since
	// bets on that alone pay more (Waudby-Smith, Ramdas: Estimating means of bounded random variables by betting,
	// Journal of the Royal Statistical Society B 86, 2024). Who bets the share λ of what he has on a larger δ makes it
	// 1 + λ(Y_i - y_i)/w_i times as much, where y_i = p_i(1-p_i)/b_i·At, and w_i is the most that y_i - Y_i can be. On
	// average that is no gain while δ is At or less. Where a unit can cost little and bring much, such as a fault of a
	// version that gets one of a hundred, it brings a hundred times the stake.
	At float64 `json:"at"`

	// Values are the sums of the numbers, by side.
	Values [2]float64 `json:"values"`
	// Means and Weights are of the latest numbers, by side.
	Means   [2]float64 `json:"means"`
	Weights [2]float64 `json:"weights"`
	// By has the part of each identity, where that is told apart.
	By map[string]*Sums `json:"by,omitempty"`
}

// Sums are those of a Score, or of a part of its units.
type Sums struct {
	Count       [2]int64 `json:"count"` // of units, by side
	Score       float64  `json:"score"`
	Information float64  `json:"information"`
	Variation   float64  `json:"variation"`
	// Above and Below are the logarithms of what bets on δ being above At, and below it, have made of one, by λ.
	Above [slopes]float64 `json:"above"`
	Below [slopes]float64 `json:"below"`
}

// Given is what a unit gave to a Score, so that it can be corrected: its side, the factor and centre of Y_i =
// weight*(value - centre), the fair gain y_i of a bet, and its number.
type Given struct {
	side                        int
	weight, centre, fair, value float64
	above, below                float64 // what a bet on either can lose
	by                          *Sums   // the part of its identity; nil: it is not told apart
}

const (
	// recent is how many of a version's latest units make its mean, and learnt how many tell about where it lies.
	recent, learnt = 200, 10.0
	// maxIdentities is how many identities are told apart. All others together are one.
	maxIdentities = 64
)

// centre is the mean of a version's latest numbers, drawn a little towards both versions', and that to the better end,
// 0. It must not depend on the unit that it is used for: it is taken before the unit is counted.
func (s *Score) centre(side int) float64 {
	const prior = 0.1 // of a number there
	all := (s.Means[0]*s.Weights[0] + s.Means[1]*s.Weights[1]) / (s.Weights[0] + s.Weights[1] + prior)
	return (s.Means[side]*s.Weights[side] + 2*all) / (s.Weights[side] + 2)
}

// Add counts a unit of a side, 0 for the baseline and 1 for the candidate, which had got it with a probability. by
// is its identity; "": it is not told apart.
func (s *Score) Add(side int, part, value float64, by string) Given {
	g := Given{side: side, value: value, by: s.part(by)}
	g.centre = (1-part)*s.centre(candidate) + part*s.centre(baseline)
	most := max(part, 1-part) * max(g.centre, 1-g.centre)
	g.weight = (float64(side) - part) / most
	information := part * (1 - part) / most
	g.fair = information * s.At
	// A bet on more loses most where the candidate gives 0 or the baseline 1, a bet on less where it is the other way
	// round.
	q := 1 - part
	// The first units tell where numbers lie, and are no more than a part of a bet.
	unsure := max(1, learnt/(1+s.Weights[baseline]+s.Weights[candidate]))
	g.above = (max(q*g.centre, part*(1-g.centre))/most + g.fair) * unsure
	g.below = (max(q*(1-g.centre), part*g.centre)/most - g.fair) * unsure
	s.give(&g, information)
	return g
}

// alone counts a number of the candidate with which nothing is compared: δ is its mean.
func (s *Score) alone(value float64) {
	g := Given{side: candidate, weight: 1, value: value, fair: s.At}
	g.above, g.below = s.At, 1-s.At
	s.give(&g, 1)
}

// give counts a unit, and takes in where numbers lie.
func (s *Score) give(g *Given, information float64) {
	s.sum(g, information, 1)
	n := min(s.Weights[g.side], recent-1)
	s.Means[g.side] = (s.Means[g.side]*n + g.value) / (n + 1)
	s.Weights[g.side] = n + 1
}

// correct replaces the number of a unit. Its centre and its bets stay those of when it came, and the means are not
// corrected: only later units are weighed by these.
func (s *Score) correct(g *Given, value float64) {
	s.sum(g, 0, -1)
	g.value = value
	s.sum(g, 0, 1)
}

// sum adds what a unit gives, or takes it out again.
func (s *Score) sum(g *Given, information, sign float64) {
	s.Values[g.side] += sign * g.value
	s.Sums.sum(g, information, sign)
	if g.by != nil {
		g.by.sum(g, information, sign)
	}
}

// sum adds what a unit gives to a part of the units, or takes it out again (sign -1). The logarithms of bets are added,
// for bets are multiplied.
func (s *Sums) sum(g *Given, information, sign float64) {
	y := g.weight * (g.value - g.centre)
	s.Count[g.side] += int64(sign)
	s.Score += sign * y
	s.Information += information
	s.Variation = max(0, s.Variation+sign*y*y)
	const least = 1e-3 // of what is lost, which bounds what is won
	gain, loss := (y-g.fair)/max(least, g.above), (y-g.fair)/max(least, g.below)
	for k, λ := range lambdas {
		s.Above[k] += sign * math.Log1p(λ*gain)
		s.Below[k] += sign * math.Log1p(-λ*loss)
	}
}

// part returns the sums of an identity, nil where it is not told apart. Identities that come once maxIdentities are
// known share one.
func (s *Score) part(by string) *Sums {
	if by == "" {
		return nil
	}
	if s.By == nil {
		s.By = map[string]*Sums{}
	}
	if s.By[by] == nil && len(s.By) >= maxIdentities {
		by = "all others"
	}
	if s.By[by] == nil {
		s.By[by] = &Sums{}
	}
	return s.By[by]
}

// mean returns that of a side's numbers, NaN of none.
func (s *Score) mean(side int) float64 { return s.Values[side] / float64(s.Count[side]) }

// Bounds returns an estimate of δ, and two bounds. For each, the probability that δ is ever beyond it is alpha at most.
// They are infinite where there is nothing to compare.
func (s *Sums) Bounds(alpha float64) (low, estimate, high float64) {
	if !(s.Information > 0) {
		return math.Inf(-1), 0, math.Inf(1)
	}
	u := boundary(s.Variation, alpha)
	return (s.Score - u) / s.Information, s.Score / s.Information, (s.Score + u) / s.Information
}

// above and below are what bets on δ being above Score.At, and below it, have made.
func above(s *Sums) *[slopes]float64 { return &s.Above }
func below(s *Sums) *[slopes]float64 { return &s.Below }

// wealth returns the logarithm of what bets have made of one on average. It ever is -log(alpha) with probability alpha
// at most, unless δ lies where they say.
func (s *Sums) wealth(of func(*Sums) *[slopes]float64) float64 { return average(of(s)[:], weights[:]) }

// without is the least wealth with any one identity left out, if there are several: what one of them makes up then
// moves no verdict. It takes a pass over the identities and their bets.
func (s *Score) without(of func(*Sums) *[slopes]float64) float64 {
	least := s.wealth(of)
	if s.diverse() {
		for _, part := range s.By {
			least = min(least, s.less(part).wealth(of))
		}
	}
	return least
}

// withoutEach widens bounds so that they hold with any one identity left out, if there are several. It names the
// identity that moved them, if one did: without it they lie wholly elsewhere.
func (s *Score) withoutEach(low, high, alpha float64) (least, most float64, moved string) {
	least, most = low, high
	if s.diverse() {
		for _, name := range slices.Sorted(maps.Keys(s.By)) {
			l, _, h := s.less(s.By[name]).Bounds(alpha)
			if l > high || h < low {
				moved = name
			}
			least, most = min(least, l), max(most, h)
		}
	}
	return least, most, moved
}

// diverse reports whether there are at least three identities, and none has more than half.
func (s *Score) diverse() bool {
	_, n := s.largest()
	return len(s.By) >= 3 && 2*n <= s.Count[baseline]+s.Count[candidate]
}

// largest returns the identity with the most units, and how many these are.
func (s *Score) largest() (name string, units int64) {
	for _, by := range slices.Sorted(maps.Keys(s.By)) {
		if n := s.By[by].Count[baseline] + s.By[by].Count[candidate]; n > units {
			name, units = by, n
		}
	}
	return name, units
}

// less returns the sums without a part of them.
func (s *Sums) less(part *Sums) *Sums {
	rest := &Sums{
		Score: s.Score - part.Score, Information: s.Information - part.Information,
		Variation: max(0, s.Variation-part.Variation),
	}
	for k := range slopes {
		rest.Above[k], rest.Below[k] = s.Above[k]-part.Above[k], s.Below[k]-part.Below[k]
	}
	return rest
}

// average returns the logarithm of the average of numbers whose logarithms are given, with weights whose sum is 1. The
// largest is taken out first, because the numbers themselves may overflow.
func average(logs, weights []float64) float64 {
	top, sum := slices.Max(logs), 0.0
	for k, log := range logs {
		sum += weights[k] * math.Exp(log-top)
	}
	return top + math.Log(sum)
}

// The λ of the average, from steep to flat: at the one end a few units decide on a difference as large as the range, at
// the other some hundred thousand on a thousandth of it. The steep ones have more weight: where units are few, each of
// them costs more.
const slopes = 16

var lambdas, psis, weights = func() (lambdas, psis, weights [slopes]float64) {
	const steepest, ratio = 0.98, 1.6
	sum := 0.0
	for k := range slopes {
		λ := steepest / math.Pow(ratio, float64(k))
		lambdas[k], psis[k], weights[k] = λ, -math.Log1p(-λ)-λ, 1/float64(k+1)
		sum += weights[k]
	}
	for k := range slopes {
		weights[k] /= sum
	}
	return lambdas, psis, weights
}()

// boundary returns what S - δI ever exceeds with probability alpha at most, where the variation is v: where the λ that
// fits best gives enough evidence by its own weight.
func boundary(v, alpha float64) float64 {
	x := math.Inf(1)
	for k, λ := range lambdas {
		x = min(x, (psis[k]*v-math.Log(alpha*weights[k]))/λ)
	}
	return x
}
