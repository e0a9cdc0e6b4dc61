package sim

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
)

// Match is how the first of several families, and the best of the others, did on a workload that was drawn.
type Match struct {
	Generated

	Carried [][]float64 // the highest load (G99), by family and seed
	Tuned   []string    // by family: the member that played
	Rival   int         // the best of the others, by its mean
	// Ratio is the first family's load over the rival's with the same requests: the mean over the seeds, and how far
	// from it the true mean may be, with 95 % confidence.
	Ratio, Error float64
	// InShare is the share on time, at the load that was drawn, of the requests of flows within their share; by family.
	InShare []float64
}

// Play lets families play the workload with so many seeds of arrivals. Of each family the member plays that carries the
// most in training, on a seed of its own.
func (g *Generated) Play(families []Family, e Effort) Match {
	m := Match{Generated: *g}
	e.Span = g.Span
	training := e.training()
	training.Span = g.Span // a few seconds are nothing to models that are slow
	for i := range families {
		who, near := tune(&g.Workload, &families[i], training, (*trial).g99Above)
		var carried []float64
		for s := range e.Seeds {
			one := e
			one.Seeds, one.First = 1, e.seed(s)
			carried = append(carried, newTrial(&g.Workload, one).g99(who, cmp.Or(near, 1)))
		}
		r := g.Workload.Play(who, g.Load, spanOf(g.Workload.Models, g.Load), e.seed(0))
		modest := InShare(g.Workload.Models, r)
		var within Tally
		for i := range r.Flows {
			if modest[i] {
				within.add(&r.Flows[i])
			}
		}
		m.Carried, m.Tuned, m.InShare = append(m.Carried, carried), append(m.Tuned, who.Name),
			append(m.InShare, within.Share())
	}
	m.Rival = 1
	for i := range families[1:] {
		if mean(m.Carried[i+1]) > mean(m.Carried[m.Rival]) {
			m.Rival = i + 1
		}
	}
	m.Ratio, m.Error = m.over(m.Rival)
	return m
}

// over is a ratio of loads. One that carries nothing counts as if it carried the least load that is looked at: where
// nobody can carry any, there is nothing between them.
func over(ours, theirs float64) float64 { return max(ours, lowest) / max(theirs, lowest) }

func mean(of []float64) float64 {
	sum := 0.0
	for _, v := range of {
		sum += v
	}
	return sum / float64(len(of))
}

// student is the 0.975 quantile of Student's t distribution, by degrees of freedom.
var student = []float64{0, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26}

// interval returns the mean of samples and half the width of its 95 % confidence interval.
func interval(of []float64) (middle, half float64) {
	middle = mean(of)
	n := len(of)
	if n < 2 {
		return middle, 0
	}
	sum := 0.0
	for _, v := range of {
		sum += (v - middle) * (v - middle)
	}
	return middle, student[min(n-1, len(student)-1)] * math.Sqrt(sum/float64(n-1)/float64(n))
}

// Matches are matches of the same families.
type Matches struct {
	Title    string
	Families []string
	All      []Match
}

// PlayGenerated lets families play the workloads of consecutive seeds.
func PlayGenerated(families []Family, first uint64, count int, e Effort, workers int, progress Progress) *Matches {
	all := &Matches{}
	for i := range families {
		all.Families = append(all.Families, families[i].Name)
	}
	found := map[Pair]Match{}
	q := &queue{progress: progress}
	for i := range count {
		find(q, found, families[0].Name, strconv.Itoa(i), func() Match {
			g := Generate(first + uint64(i))
			return g.Play(families, e)
		})
	}
	q.work(workers)
	for i := range count {
		all.All = append(all.All, found[Pair{families[0].Name, strconv.Itoa(i)}])
	}
	return all
}

func (m Match) String() string {
	return fmt.Sprintf("%.3f ± %.3f of %s; %s: %s", m.Ratio, m.Error, m.Tuned[m.Rival], m.Workload.Name, m.Workload.About)
}

// Summary is what many ratios come to. Most and Fifth are of the workloads that are worth judging: where nobody carries
// much, little is a large ratio. Worst is of those of them whose ratio is known; NaN if there is none.
type Summary struct{ Mean, Most, Fifth, Worst float64 }

const (
	// worthJudging is the least load that the best family carries on a workload worth judging.
	worthJudging = 0.15
	// known is the most width of a confidence interval of a ratio that is known.
	known = 0.15
)

// Over returns the summary of the first family's loads over those of another, over the best of each workload if it is
// -1.
func (m *Matches) Over(family int) Summary {
	var all, most []float64
	worst := math.NaN()
	for i := range m.All {
		one := &m.All[i]
		rival := family
		if rival < 0 {
			rival = one.Rival
		}
		r := over(mean(one.Carried[0]), mean(one.Carried[rival]))
		all = append(all, r)
		if max(mean(one.Carried[0]), mean(one.Carried[one.Rival])) < worthJudging {
			continue
		}
		most = append(most, r)
		if _, half := one.over(rival); 2*half < known && !(r >= worst) {
			worst = r
		}
	}
	s := Summary{Mean: geomean(all), Most: math.NaN(), Fifth: math.NaN(), Worst: worst}
	if len(most) > 0 {
		s.Most, s.Fifth = geomean(most), quantile(most, 0.05)
	}
	return s
}

// over returns the ratio of the first family's load over another's, the mean over the seeds, and its error.
func (m *Match) over(family int) (ratio, half float64) {
	var each []float64
	for s, ours := range m.Carried[0] {
		each = append(each, over(ours, m.Carried[family][s]))
	}
	return interval(each)
}

// Markdown writes a table of the families, and the workloads on which the first does worst.
func (m *Matches) Markdown(w io.Writer) error {
	p := &page{}
	p.section(m.Title, fmt.Sprintf("The highest load with 99 %% of the requests on time, %s over others, "+
		"on %d workloads that were drawn (seeds %d to %d), of %d seeds each.\nNot small: those of which the best carries at "+
		"least %.2f of the fluid capacity. The worst is of those of them whose 95 %%\nconfidence interval is narrower than "+
		"%.2f. In share: the share on time of flows within their share, at a load that was drawn\ntoo; the mean, and the "+
		"worst.", m.Families[0], len(m.All), m.All[0].Seed, m.All[len(m.All)-1].Seed, len(m.All[0].Carried[0]),
		worthJudging, known))
	p.head(right, m.Families[0]+" over", "geometric mean", "not small", "5th percentile", "worst", "its in share",
		"its worst")
	row := func(name string, family int) {
		s := m.Over(family)
		sum, worst := 0.0, 1.0
		for i := range m.All {
			share := m.All[i].InShare[max(family, 0)]
			sum, worst = sum+share, min(worst, share)
		}
		p.row(name, append(numbers(s.Mean, s.Most, s.Fifth, s.Worst), percent(sum/float64(len(m.All))), percent(worst))...)
	}
	for i, name := range m.Families {
		row(name, i)
	}
	row(bestOfOthers+", and "+m.Families[0]+" in share", -1)
	p.printf("\n")
	worst := slices.DeleteFunc(slices.Clone(m.All), func(a Match) bool {
		return 2*a.Error >= known || max(mean(a.Carried[0]), mean(a.Carried[a.Rival])) < worthJudging
	})
	slices.SortFunc(worst, func(a, b Match) int { return cmp.Compare(a.Ratio, b.Ratio) })
	p.head(right, "the worst", "ratio", "±", m.Families[0], "rival", "its load", "workload")
	for _, one := range worst[:min(25, len(worst))] {
		p.row(strconv.FormatUint(one.Seed, 10), fmt.Sprintf("%.3f", one.Ratio), fmt.Sprintf("%.3f", one.Error),
			fmt.Sprintf("%.2f", mean(one.Carried[0])), one.Tuned[one.Rival],
			fmt.Sprintf("%.2f", mean(one.Carried[one.Rival])), one.Workload.About)
	}
	_, err := io.WriteString(w, p.String())
	return err
}
