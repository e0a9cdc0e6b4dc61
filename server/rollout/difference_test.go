package rollout

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weftserve/weft/internal/race"
)

// world draws outcomes. shift is by how much the candidate's mean truly exceeds the baseline's.
type world struct {
	name  string
	shift float64
	draw  func(r *rand.Rand, candidate bool) float64
}

func normal(shift float64) world {
	return world{"normal", shift, func(r *rand.Rand, candidate bool) float64 {
		if candidate {
			return shift + r.NormFloat64()
		}
		return r.NormFloat64()
	}}
}

func success(baseline, candidate float64) world {
	return world{"success", candidate - baseline, func(r *rand.Rand, is bool) float64 {
		p := baseline
		if is {
			p = candidate
		}
		if r.Float64() < p {
			return 1
		}
		return 0
	}}
}

func exponential() world {
	return world{"exponential", 0, func(r *rand.Rand, _ bool) float64 { return r.ExpFloat64() }}
}

func wide() world {
	return world{"wide", 0, func(r *rand.Rand, candidate bool) float64 {
		if candidate {
			return 3 * r.NormFloat64()
		}
		return r.NormFloat64()
	}}
}

// stage is a part of a simulated rollout: the candidate's share of the episodes, how many there are, and the mean of
// both versions then.
type stage struct {
	share    float64
	episodes int
	level    float64
}

// verdict is the outcome check without its words.
func verdict(strata []Stratum, g Gate) Verdict {
	estimate, radius := difference(strata, g.Alpha)
	switch {
	case estimate-radius > -g.Margin:
		return Promote
	case estimate+radius < -g.Margin:
		return Rollback
	}
	return Hold
}

// simulate asks judge after every episode, as soon as there are enough of each version, and returns whether it ever
// said Promote and ever said Rollback, and after how many episodes of the candidate it first said either (0: never). A
// Promote also ends the stage.
func simulate(r *rand.Rand, w world, g Gate, stages []stage,
	judge func([]Stratum, Gate) Verdict,
) (promoted, rolledBack bool, first int64) {
	var strata []Stratum
	for _, stage := range stages {
		strata = append(strata, Stratum{})
		now := &strata[len(strata)-1]
		for range stage.episodes {
			if r.Float64() < stage.share {
				now.Candidate.Add(stage.level + w.draw(r, true))
			} else {
				now.Baseline.Add(stage.level + w.draw(r, false))
			}
			b, c := episodes(strata)
			if min(b, c) < g.MinEpisodes {
				continue
			}
			v := judge(strata, g)
			if v != Hold && first == 0 {
				first = c
			}
			rolledBack = rolledBack || v == Rollback
			if v == Promote {
				promoted = true
				break
			}
		}
		if rolledBack {
			break
		}
	}
	return promoted, rolledBack, first
}

const simulated = 1000

// skipCalibration leaves thousands of simulated rollouts to runs that have the time for them.
func skipCalibration(t *testing.T) {
	t.Helper()
	if testing.Short() || race.Enabled {
		t.Skip("one goroutine computes, for a second or more, and for minutes under the race detector")
	}
}

// limit is alpha and three standard errors of a part of the simulated rollouts.
func limit(alpha float64) float64 { return alpha + 3*math.Sqrt(alpha*(1-alpha)/simulated) }

var (
	half   = []stage{{0.5, 1200, 0}}
	staged = []stage{{0.05, 1000, 0}, {0.2, 500, 1}, {0.5, 500, -1}}
)

// falseVerdicts returns the parts of simulated rollouts that ever said Promote and that ever said Rollback.
func falseVerdicts(w world, g Gate, stages []stage, judge func([]Stratum, Gate) Verdict) (promote, rollback float64) {
	for i := range uint64(simulated) {
		p, r, _ := simulate(rand.New(rand.NewPCG(i, 11)), w, g, stages, judge)
		if p {
			promote += 1.0 / simulated
		}
		if r {
			rollback += 1.0 / simulated
		}
	}
	return promote, rollback
}

// TestDifferenceCalibration: with a look after every episode, a verdict that is not true comes in at most alpha of the
// rollouts. The hardest truth is that of the margin itself, where either verdict is wrong.
func TestDifferenceCalibration(t *testing.T) {
	skipCalibration(t)
	for _, c := range []struct {
		name   string
		w      world
		margin float64
		stages []stage
	}{
		{"no difference, normal", normal(0), 0, half},
		{"no difference, success 0.5", success(0.5, 0.5), 0, half},
		{"no difference, success 0.9", success(0.9, 0.9), 0, half},
		{"no difference, success 0.99", success(0.99, 0.99), 0, half},
		{"no difference, exponential", exponential(), 0, half},
		{"no difference, moving split and level", normal(0), 0, staged},
		{"no difference, success 0.9, candidate at 2 percent", success(0.9, 0.9), 0, []stage{{0.02, 2000, 0}}},
		{"no difference, exponential, candidate at 2 percent", exponential(), 0, []stage{{0.02, 2000, 0}}},
		{"no difference, success 0.97, candidate at 1 percent", success(0.97, 0.97), 0, []stage{{0.01, 6000, 0}}},
		{"no difference, candidate spread three times as wide, at 2 percent", wide(), 0, []stage{{0.02, 2000, 0}}},
		{"worse by the margin, moving split and level", normal(-0.3), 0.3, staged},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			alphas := []float64{0.05, 0.2}
			if len(c.stages) > 1 || c.stages[0].episodes > 1200 {
				alphas = alphas[:1] // It takes long.
			}
			for _, alpha := range alphas {
				promote, rollback := falseVerdicts(c.w, Gate{MinEpisodes: 20, Margin: c.margin, Alpha: alpha}, c.stages,
					verdict)
				t.Logf("alpha %v: PROMOTE %.3f, ROLLBACK %.3f", alpha, promote, rollback)
				if promote > limit(alpha) || rollback > limit(alpha) {
					t.Errorf("alpha %v: PROMOTE in %.3f, ROLLBACK in %.3f of %d rollouts; expected at most %.3f",
						alpha, promote, rollback, simulated, limit(alpha))
				}
			}
		})
	}
}

// TestDifferenceOneSided: a candidate that is truly worse is promoted with margin 0 in at most alpha of the rollouts,
// and one that is less than the margin worse is rolled back in at most alpha.
func TestDifferenceOneSided(t *testing.T) {
	skipCalibration(t)
	const alpha = 0.05
	for _, shift := range []float64{-0.02, -0.1, -0.3} {
		if promote, _ := falseVerdicts(normal(shift), Gate{MinEpisodes: 20, Alpha: alpha}, staged,
			verdict); promote > limit(alpha) {
			t.Errorf("worse by %v: promoted in %.3f of %d rollouts", -shift, promote, simulated)
		} else {
			t.Logf("worse by %v: promoted in %.3f", -shift, promote)
		}
	}
	if _, rollback := falseVerdicts(normal(-0.1), Gate{MinEpisodes: 20, Margin: 0.2, Alpha: alpha}, staged,
		verdict); rollback > limit(alpha) {
		t.Errorf("worse by half of the margin: rolled back in %.3f of %d rollouts", rollback, simulated)
	}
}

// TestSimulationFindsFaults shows that the calibration would see a test that must not be looked at again and again, and
// one that adds up episodes over splits.
func TestSimulationFindsFaults(t *testing.T) {
	if race.Enabled {
		t.Skip("one goroutine, and minutes under the race detector")
	}
	g := Gate{MinEpisodes: 20, Alpha: 0.05}
	once := func(strata []Stratum, g Gate) Verdict {
		s := strata[0]
		se := math.Sqrt(s.Baseline.Squares/float64(s.Baseline.Count)/float64(s.Baseline.Count) +
			s.Candidate.Squares/float64(s.Candidate.Count)/float64(s.Candidate.Count))
		switch z := (s.Candidate.Mean - s.Baseline.Mean) / se; {
		case z > 1.96:
			return Promote
		case z < -1.96:
			return Rollback
		}
		return Hold
	}
	if promote, rollback := falseVerdicts(normal(0), g, half, once); promote < 2*limit(g.Alpha) ||
		rollback < 2*limit(g.Alpha) {
		t.Errorf("a z-test with peeking: PROMOTE %.3f, ROLLBACK %.3f; expected far too many", promote, rollback)
	}
	pooled := func(strata []Stratum, g Gate) Verdict {
		var all Stratum
		for _, s := range strata {
			all.Baseline = merge(all.Baseline, s.Baseline)
			all.Candidate = merge(all.Candidate, s.Candidate)
		}
		return verdict([]Stratum{all}, g)
	}
	if promote, rollback := falseVerdicts(normal(0), g, staged, pooled); promote+rollback < 0.5 {
		t.Errorf("adding up over splits while the level moves: PROMOTE %.3f, ROLLBACK %.3f; expected far too many",
			promote, rollback)
	}
}

func merge(a, b Moments) Moments {
	n := float64(a.Count + b.Count)
	if n == 0 {
		return a
	}
	d := b.Mean - a.Mean
	return Moments{
		Count: a.Count + b.Count, Mean: a.Mean + d*float64(b.Count)/n,
		Squares: a.Squares + b.Squares + d*d*float64(a.Count)*float64(b.Count)/n,
		Min:     min(a.Min, b.Min), Max: max(a.Max, b.Max),
	}
}

// TestDifferencePower: a clear difference is found within 300 episodes of each version in at least 98 of 100 rollouts.
func TestDifferencePower(t *testing.T) {
	g := Gate{MinEpisodes: 20, Alpha: 0.05}
	stages := []stage{{0.5, 600, 0}}
	for _, c := range []struct {
		name string
		w    world
	}{
		{"half a standard deviation better", normal(0.5)},
		{"half a standard deviation worse", normal(-0.5)},
		{"success 0.9 after 0.7", success(0.7, 0.9)},
		{"success 0.7 after 0.9", success(0.9, 0.7)},
	} {
		var right, wrong int
		var taken []int64
		for i := range uint64(simulated) {
			promoted, rolledBack, first := simulate(rand.New(rand.NewPCG(i, 5)), c.w, g, stages, verdict)
			if promoted && c.w.shift > 0 || rolledBack && c.w.shift < 0 {
				right++
			}
			if promoted && c.w.shift < 0 || rolledBack && c.w.shift > 0 {
				wrong++
			}
			if first > 0 {
				taken = append(taken, first)
			}
		}
		t.Logf("%s: found in %d of %d, wrong in %d, after %v episodes of the candidate in the mean", c.name, right,
			simulated, wrong, mean(taken))
		if right < simulated*98/100 || wrong > simulated/100 {
			t.Errorf("%s: found in %d of %d rollouts, wrong in %d", c.name, right, simulated, wrong)
		}
	}
}

func mean(xs []int64) int64 {
	var sum int64
	for _, x := range xs {
		sum += x
	}
	return sum / int64(max(len(xs), 1))
}

func repeated(x float64, n int) (m Moments) {
	for range n {
		m.Add(x)
	}
	return m
}

// mixed returns n episodes of which one of every failing fails.
func mixed(n, failing int) (m Moments) {
	for i := range n {
		m.Add(float64(min(i%failing, 1)))
	}
	return m
}

func TestDifferenceWithoutSpread(t *testing.T) {
	for _, c := range []struct {
		name   string
		s      Stratum
		margin float64
		want   Verdict
	}{
		{"all the same number", Stratum{repeated(7, 30), repeated(7, 30)}, 0, Hold},
		{"all the same number, with a margin", Stratum{repeated(7, 30), repeated(7, 30)}, 0.1, Promote},
		{"20 successes of 20 do not show 95 percent", Stratum{repeated(1, 20), repeated(1, 20)}, 0.05, Hold},
		{"200 successes of 200 do", Stratum{repeated(1, 200), repeated(1, 200)}, 0.05, Promote},
		{"all fail where all succeeded", Stratum{repeated(1, 20), repeated(0, 20)}, 0, Rollback},
		{"all succeed where all failed", Stratum{repeated(0, 20), repeated(1, 20)}, 0, Promote},
		{"2 fail where 2 succeeded", Stratum{repeated(1, 2), repeated(0, 2)}, 0, Hold},
		{"a lucky start of a candidate with few episodes", Stratum{mixed(2000, 10), repeated(1, 32)}, 0, Hold},
		{"the same with more episodes", Stratum{mixed(2000, 10), repeated(1, 80)}, 0, Promote},
		{"nothing to compare with", Stratum{repeated(1, 50), Moments{}}, 0, Hold},
	} {
		if got := verdict([]Stratum{c.s}, Gate{Margin: c.margin, Alpha: 0.05}); got != c.want {
			t.Errorf("%s: %v, expected %v", c.name, got, c.want)
		}
	}
}

// TestDifferenceRadius holds the numbers of the comment on mixture.
func TestDifferenceRadius(t *testing.T) {
	errors := func(n int) float64 {
		// Half of the episodes at -1 and half at 1, and many enough that the two more change nothing.
		m := Moments{Count: int64(n), Squares: float64(n-1) + 1, Min: -1, Max: 1}
		_, radius := difference([]Stratum{{m, m}}, 0.05)
		v := 2 * variance([]Stratum{{m, m}}, func(s *Stratum) *Moments { return &s.Baseline }, -1, 1) / float64(n)
		return radius / math.Sqrt(v)
	}
	if got := errors(100); math.Abs(got-3.035) > 0.005 {
		t.Errorf("at 100 episodes: %.4f standard errors, expected 3.035", got)
	}
	for _, n := range []int{20, 50, 200, 1000, 10_000} {
		if got := errors(n); got < errors(100)-0.02 || got > 3.7 {
			t.Errorf("at %d episodes: %.4f standard errors, expected between those at 100 and 3.7", n, got)
		}
	}
}
