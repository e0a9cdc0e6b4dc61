package rollout

import "math"

// difference estimates by how much the candidate's mean outcome exceeds the baseline's: the estimate, and the radius of
// an interval around it that contains the true difference at all times at once with probability 1-alpha. So a gate may
// look after every report and stop when it likes; a t-test that is looked at like this ends in a false verdict sooner
// or later, with certainty. Where nothing can be compared the radius is infinite.
//
// It is an asymptotic confidence sequence (Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas: Time-uniform central limit
// theory and asymptotic confidence sequences, Annals of Statistics 52(6), 2024; arXiv 2103.06476), used for two samples
// like this:
//
// Stratum k has b and c episodes, the difference D_k of the two means, and V_k = σb²/b + σc²/c, the variance of D_k.
// Call I_k = 1/V_k the information and S_k = D_k·I_k the score. Of means taken at two times s < t, Cov(D_s, D_t) = V_t,
// as the mean at t contains the one at s. Hence Cov(S_s, S_t) = V_t/(V_s·V_t) = I_s: with true difference δ the process
// S - δI moves like a Brownian motion whose clock is I, in whatever order the episodes of the two versions come
// (Jennison and Turnbull, Journal of the American Statistical Association 92, 1997, show this "canonical" distribution
// for many statistics). A new stratum adds an independent piece, also when the gate's own verdict began it, so that S =
// ΣS_k and I = ΣI_k do the same, and S/I is the estimate of δ.
//
// For a Brownian motion B with clock I, exp(θB - θ²I/2) is a martingale that starts at 1, for every θ. Averaged over θ
// drawn from a normal distribution with mean 0 and variance τ² it still is (Robbins, Annals of Mathematical Statistics
// 41, 1970), and has the closed form
//
//	M = (1 + τ²I)^(-1/2) · exp(τ²B² / (2(1 + τ²I))).
//
// A nonnegative martingale that starts at 1 ever reaches 1/alpha with probability at most alpha (Ville). Solving M <
// 1/alpha for |B| = |S - δI| and dividing by I gives the radius:
//
//	|S/I - δ| < sqrt( (1 + 1/(τ²I)) · (log(1 + τ²I) + 2·log(1/alpha)) / I ).
//
// τ only chooses where the sequence is tightest. Here τ² = mixture·(σb²+σc²)/2, free of the outcome's unit.
//
// It is asymptotic because the variances are estimated. Two things keep it honest while episodes are few; both fade
// with 1/n and err towards waiting. Two episodes that nobody reported are added to each variance, one with the least
// and one with the greatest outcome seen of either version (for outcomes that were all 0 or all 1: a 0 and a 1). For
// successes this is what Agresti and Caffo (American Statistician 54, 2000) do: ten successes of ten do not mean a
// variance of 0. And a variance below the other version's is raised towards it: without that a candidate at 2 percent
// of the traffic whose first 30 episodes all happen to succeed, where nine of ten do, is promoted in 7 of 100 rollouts
// at alpha 0.05.
func difference(strata []Stratum, alpha float64) (estimate, radius float64) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, s := range strata {
		for _, m := range [...]*Moments{&s.Baseline, &s.Candidate} {
			if m.Count > 0 {
				low, high = min(low, m.Min), max(high, m.Max)
			}
		}
	}
	if low == high && (low == 0 || low == 1) {
		low, high = 0, 1
	}
	b := variance(strata, func(s *Stratum) *Moments { return &s.Baseline }, low, high)
	c := variance(strata, func(s *Stratum) *Moments { return &s.Candidate }, low, high)
	baselines, candidates := episodes(strata)
	varB, varC := raised(b, c, baselines), raised(c, b, candidates)

	var score, information float64
	for _, s := range strata {
		if s.Baseline.Count == 0 || s.Candidate.Count == 0 {
			continue
		}
		if varB+varC == 0 {
			return 0, 0 // Every outcome was the same number.
		}
		i := 1 / (varB/float64(s.Baseline.Count) + varC/float64(s.Candidate.Count))
		information += i
		score += (s.Candidate.Mean - s.Baseline.Mean) * i
	}
	if information == 0 {
		return 0, math.Inf(1)
	}
	tau := mixture * (varB + varC) / 2 * information
	return score / information, math.Sqrt((1 + 1/tau) * (math.Log1p(tau) + 2*math.Log(1/alpha)) / information)
}

// mixture makes the sequence tightest at about 100 episodes of each version, where the radius is 3.0 standard errors
// for alpha 0.05; from 20 to 10,000 it is below 3.7. The paper's choice for the time t is (-2·log(alpha) +
// log(-2·log(alpha)) + 1) / t, here with alpha 0.05 and t = 50: two samples of 100 know as much of their difference as
// one of 50 of its mean.
const mixture = 8.78 / 50

// raised returns the variance own of n episodes, raised towards the other version's as if borrowed more episodes had
// that one.
func raised(own, other float64, n int64) float64 {
	const borrowed = 20
	return own + max(0, other-own)*borrowed/float64(n+borrowed)
}

// variance estimates one version's variance inside strata, with two more values, low and high.
func variance(strata []Stratum, of func(*Stratum) *Moments, low, high float64) float64 {
	var squares, n, sum float64
	degrees := 2.0
	for i := range strata {
		if m := of(&strata[i]); m.Count > 0 {
			squares += m.Squares
			n += float64(m.Count)
			sum += m.Mean * float64(m.Count)
			degrees += float64(m.Count - 1)
		}
	}
	if n == 0 {
		return 0
	}
	mean := sum / n
	return (squares + (low-mean)*(low-mean) + (high-mean)*(high-mean)) / degrees
}
