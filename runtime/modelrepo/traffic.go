package modelrepo

import (
	"fmt"
	"math"
	"slices"

	"github.com/weftserve/weft/internal/config"
)

// Traffic divides the requests that name neither a version nor a label among the versions of a model.
type Traffic struct {
	// Split lists the slots that divide the traffic. By default there are none.
	Split []SplitEntry `yaml:"split,omitempty"`
	// Shadow lists versions that receive copies of requests. Weft compares their answers, and no caller receives them.
	// By default there are none.
	Shadow []ShadowEntry `yaml:"shadow,omitempty"`
}

// SplitEntry is one part of a split.
type SplitEntry struct {
	// Slot (required) is the slot's name in answers and metrics, unique in the split.
	Slot string `yaml:"slot"`
	// Version (required) is the version that answers the slot's requests. Two slots may use one version.
	Version int64 `yaml:"version"`
	// Weight (required) is the slot's share of the episodes relative to the sum of all weights. A slot with weight 0 gets
	// no new episodes, unless no slot with a weight is ready.
	Weight float64 `yaml:"weight"`
}

// ShadowEntry is a version in the shadow of the versions that answer.
type ShadowEntry struct {
	// Version (required) is the version that receives the copies.
	Version int64 `yaml:"version"`
	// Sample (above 0, at most 1; default 1) is the fraction of episodes or requests that are copied. More shows
	// differences sooner and takes spare device time.
	Sample float64 `yaml:"sample"`
	// Per (episode or request; default episode) is the unit of the sample. A version that keeps state between the
	// requests of an episode needs whole episodes.
	Per Per `yaml:"per" enum:"episode,request"`
	// Tolerance (above 0, at most 1; default 0.001) is the largest difference at which two elements count as equal,
	// relative to the output's largest magnitude. Too low reports rounding as a difference. Too high hides real
	// differences.
	Tolerance float64 `yaml:"tolerance"`
	// Tolerances (0 to 1) gives tolerances of single outputs by name; 0 requires equal values. Other outputs use
	// Tolerance.
	Tolerances map[string]float64 `yaml:"tolerances,omitempty"`
}

// Per is the unit that a shadow samples: episode or request.
type Per string

// The sampled units.
const (
	PerEpisode Per = "episode"
	PerRequest Per = "request"
)

// notGiven is a weight that no file can hold.
var notGiven = math.Inf(-1)

// SetDefaults makes a weight that is not given recognizable.
func (s *SplitEntry) SetDefaults() { s.Weight = notGiven }

// SetDefaults sets the values of an entry that names nothing but its version.
func (s *ShadowEntry) SetDefaults() { *s = ShadowEntry{Sample: 1, Per: PerEpisode, Tolerance: 0.001} }

// names lists the versions that requests or their copies are sent to, with the keys that say so.
func (t *Traffic) names() []named {
	if t == nil {
		return nil
	}
	var all []named
	for i, s := range t.Split {
		all = append(all, named{fmt.Sprintf("traffic.split[%d].version", i), s.Version})
	}
	for i, s := range t.Shadow {
		all = append(all, named{fmt.Sprintf("traffic.shadow[%d].version", i), s.Version})
	}
	return all
}

// maxWeight is far above the weights that shares need; it keeps sums exact.
const maxWeight = 100_000

// check judges the traffic whatever versions there are.
func (t *Traffic) check(faults *config.Faults) {
	if t == nil {
		return
	}
	sum := 0.0
	for i, s := range t.Split {
		at := fmt.Sprintf("traffic.split[%d]", i)
		sameSlot := func(other SplitEntry) bool { return other.Slot == s.Slot }
		switch {
		case s.Slot == "":
			faults.Addf(at, "slot is missing; expected such as {slot: a, version: 1, weight: 90}")
		case !ValidName(s.Slot):
			faults.Addf(at+".slot", "a slot %s, found %q", nameRule, s.Slot)
		case slices.ContainsFunc(t.Split[:i], sameSlot):
			faults.Addf(at+".slot", "%q names another slot of the split already; expected a name of its own", s.Slot)
		}
		checkNumber(faults, at, s.Version)
		if s.Weight == notGiven {
			faults.Addf(at, "weight is missing; expected a share such as 90, or 0 for no new episodes")
		} else {
			config.Between(faults, at+".weight", s.Weight, 0, maxWeight)
		}
		sum += s.Weight
	}
	if len(t.Split) > 0 && sum == 0 {
		faults.Addf("traffic.split", "every weight is 0, so that nothing would answer; expected at least one above 0")
	}
	for i, s := range t.Shadow {
		at := fmt.Sprintf("traffic.shadow[%d]", i)
		checkNumber(faults, at, s.Version)
		if slices.ContainsFunc(t.Shadow[:i], func(other ShadowEntry) bool { return other.Version == s.Version }) &&
			s.Version > 0 {
			faults.Addf(at+".version", "version %d is listed twice; expected each version once", s.Version)
		}
		if !(s.Sample > 0 && s.Sample <= 1) {
			faults.Addf(at+".sample", "%v is out of range; expected above 0, up to 1", s.Sample)
		}
		if !(s.Tolerance > 0 && s.Tolerance <= 1) {
			faults.Addf(at+".tolerance",
				"%v is out of range; expected above 0, up to 1 (a tiny one such as 1e-12 asks for equal answers)",
				s.Tolerance)
		}
		for _, output := range sortedKeys(s.Tolerances) {
			config.Between(faults, at+".tolerances."+output, s.Tolerances[output], 0, 1)
		}
	}
}

// checkNumber judges the version of an entry.
func checkNumber(faults *config.Faults, entry string, version int64) {
	switch {
	case version == 0:
		faults.Addf(entry, "version is missing; expected the number of a version")
	case version < 0:
		faults.Addf(entry+".version", "version %d; expected a positive number", version)
	}
}
