package rollout

import "math"

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

// splitOf tests all stages as one: the variance of the sum of the candidate's episodes is the sum of the stages'. Of
// one stage it is the usual test of two counts.
func splitOf(strata []*stratum) Split {
	var s Split
	var variance, all float64
	for _, in := range strata {
		b, c := in.episodes[baseline].all(), in.episodes[candidate].all()
		s.Baseline += b
		s.Candidate += c
		n := float64(b + c)
		all += n
		s.Expected += n * in.part
		variance += n * in.part * (1 - in.part)
	}
	if min(s.Expected, all-s.Expected) >= fewestExpected {
		off := float64(s.Candidate) - s.Expected
		square := off * off / variance
		p := math.Erfc(math.Sqrt(square / 2))
		s.ChiSquare, s.PValue, s.Mismatch = &square, &p, p < suspicious
	}
	return s
}

// Excluded counts episodes, or reports of them, that no interval of the outcome contains.
type Excluded struct {
	Reason    string `json:"reason"` // lost, unfinished, waiting, outside, no_room, unpaired or repeated
	Baseline  int64  `json:"baseline"`
	Candidate int64  `json:"candidate"`
}

// tellExcluded adds the episodes that do not count to the evidence, which has all others.
func (r *run) tellExcluded(e *Evidence) {
	b, c := &e.BaselineEpisodes, &e.CandidateEpisodes
	var unpaired [2]int64
	for _, s := range r.strata {
		if min(s.Baseline.Count, s.Candidate.Count) == 0 {
			unpaired[baseline] += s.Baseline.Count
			unpaired[candidate] += s.Candidate.Count
		}
	}
	for _, x := range []Excluded{
		{"lost", b.Lost, c.Lost},
		{"unfinished", b.Unfinished, c.Unfinished},
		{"waiting", b.Waiting, c.Waiting},
		{"outside", r.outside[baseline], r.outside[candidate]},
		{"no_room", r.noRoom[baseline], r.noRoom[candidate]},
		{"unpaired", unpaired[baseline], unpaired[candidate]},
		{"repeated", r.repeated[baseline], r.repeated[candidate]},
	} {
		if x.Baseline+x.Candidate > 0 {
			e.Excluded = append(e.Excluded, x)
		}
	}
}
