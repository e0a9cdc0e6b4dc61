package rollout

import "time"

// Evidence holds the facts that a gate judges by.
type Evidence struct {
	// Baseline and Candidate are about requests, since the stage began.
	Baseline, Candidate Requests
	// Agreed of Shadowed answers of the candidate agreed with those of the version that answered, since the rollout
	// began.
	Agreed, Shadowed int64
	// Apart says why the two versions' requests did not come under the same load, "" if they did. Overload is then no
	// proof against the candidate.
	Apart string
	// Strata are the outcomes, since the rollout began.
	Strata []Stratum
	// Lost has a 1 for each episode that was lost and a 0 for each other that began, by the same strata.
	Lost []Stratum
	// Complete: no stage in which both versions get episodes is running. Waiting for more of them is in vain.
	Complete bool
	// BaselineEpisodes and CandidateEpisodes count the episodes by their fate since the rollout began.
	BaselineEpisodes, CandidateEpisodes Episodes
	// Split is how episodes were divided, and Excluded counts those that are not in Strata, or take no part there. No
	// verdict depends on them.
	Split    Split
	Excluded []Excluded
}

// Requests counts one version's requests.
type Requests struct {
	// Count of requests that were answered or ended by a fault of the model, and the Faults among them.
	Count, Faults int64
	// Asked counts the requests. Failed counts those that were not answered, except for faults of the model, and
	// Overload those of Failed that ended for want of capacity.
	Asked, Failed, Overload int64
	// Codes counts how requests ended, by the names of gRPC codes.
	Codes map[string]int64
	// Compute is a sample, drawn evenly, of the compute times of the answered ones, ascending.
	Compute []time.Duration
	// Earlier: Compute is of an earlier stage, as this one has given the version too few requests.
	Earlier bool
}

// Stratum is the outcomes of episodes that were divided between the versions by one and the same split. Versions are
// only compared inside a stratum: where the outcomes drift with time while the split moves, adding up all episodes
// would blame or praise the candidate for the time of day at which it got most of its own.
type Stratum struct {
	Baseline, Candidate Moments
}

// Episodes counts one version's episodes by their fate, of those that began in stages in which both versions get some.
type Episodes struct {
	Begun      int64 `json:"begun"`
	Reported   int64 `json:"reported"`   // with the outcome that decides
	Waiting    int64 `json:"waiting"`    // reported, but not counted yet: see Config.Unfinished
	Unfinished int64 `json:"unfinished"` // not reported, but somebody may do so still
	Lost       int64 `json:"lost"`       // the rest
}

// episodes returns how many episodes each version has.
func episodes(strata []Stratum) (baseline, candidate int64) {
	for _, s := range strata {
		baseline += s.Baseline.Count
		candidate += s.Candidate.Count
	}
	return baseline, candidate
}
