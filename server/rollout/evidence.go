package rollout

import "time"

// Evidence is what a gate judges by.
type Evidence struct {
	// Baseline and Candidate are about requests, since the stage began.
	Baseline, Candidate Requests
	// Agreed of Shadowed answers of the candidate agreed with those of the version that answered, since the rollout began.
	Agreed, Shadowed int64
	// Strata are the outcomes, since the rollout began.
	Strata []Stratum
}

// Requests is what was counted of one version's requests.
type Requests struct {
	// Count of requests that were answered or ended by a fault of the model, and the Faults among them.
	Count, Faults int64
	// Compute is a sample, drawn evenly, of the compute times of the answered ones, ascending.
	Compute []time.Duration
	// Earlier: Compute is of an earlier stage, as this one has given the version too few requests.
	Earlier bool
}

// Stratum is the outcomes of episodes that were divided between the versions by one and the same split. Versions are only compared
// inside a stratum: where the outcomes drift with time while the split moves, adding up all episodes would blame or praise the
// candidate for the time of day at which it got most of its own.
type Stratum struct {
	Baseline, Candidate Moments
}

// episodes returns how many episodes each version has.
func episodes(strata []Stratum) (baseline, candidate int64) {
	for _, s := range strata {
		baseline += s.Baseline.Count
		candidate += s.Candidate.Count
	}
	return baseline, candidate
}
