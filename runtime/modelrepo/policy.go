package modelrepo

import (
	"fmt"
	"slices"

	"github.com/weftserve/weft/internal/config"
)

// Versions selects the served versions, and names them.
type Versions struct {
	// Policy (default {latest: 1}) selects the versions that are served: all, {latest: N} or {specific: [N, ...]}.
	Policy Policy `yaml:"policy" config:"replace"`
	// Transition (availability or resource; default availability) is which step comes first when the selection changes.
	// `availability`: new versions are loaded before old ones are unloaded. `resource`: the other way round.
	Transition Transition `yaml:"transition" enum:"availability,resource"`
	// Labels are names of versions for requests, such as stable: 3. A policy with specific versions must list them.
	Labels map[string]int64 `yaml:"labels,omitempty,flow"`
}

// Transition is availability, the default (a new version is loaded and ready before an old one is unloaded, so that one
// always answers; both are in memory for that time), or resource (the old one is unloaded first, so that memory is
// needed for one only; nothing answers in between).
type Transition string

// The transitions.
const (
	AvailabilityFirst Transition = "availability"
	ResourceFirst     Transition = "resource"
)

// Policy selects versions; exactly one field is set. In files it is all, {latest: N} or {specific: [N, ...]}.
type Policy struct {
	All bool `yaml:"-"`
	// Latest (at least 1) selects the N highest numbers, and the versions that labels and traffic name. Rolled-back
	// versions do not count. Each version takes memory.
	Latest int `yaml:"latest"`
	// Specific selects exactly these numbers.
	Specific []int64 `yaml:"specific,flow"`
}

const policyForms = "expected all, {latest: N} or {specific: [N, ...]}"

// UnmarshalText reads the form without a parameter: all.
func (p *Policy) UnmarshalText(text []byte) error {
	if string(text) != "all" {
		return fmt.Errorf("%s, found %q", policyForms, text)
	}
	*p = Policy{All: true}
	return nil
}

// MarshalYAML gives the form that was read.
func (p Policy) MarshalYAML() (any, error) {
	switch {
	case p.All:
		return "all", nil
	case p.Specific != nil:
		return struct {
			Specific []int64 `yaml:"specific,flow"`
		}{p.Specific}, nil
	}
	return map[string]int{"latest": p.Latest}, nil
}

func (p *Policy) check(faults *config.Faults) {
	const key = "versions.policy"
	switch {
	case p.All:
	case p.Specific != nil && p.Latest != 0:
		faults.Addf(key, "latest and specific exclude each other; %s", policyForms)
	case p.Specific != nil:
		if len(p.Specific) == 0 {
			faults.Addf(key+".specific", "the list is empty; expected at least one version number")
		}
		for i, n := range p.Specific {
			at := fmt.Sprintf("%s.specific[%d]", key, i)
			if n < 1 {
				faults.Addf(at, "version %d; expected a positive number", n)
			} else if slices.Contains(p.Specific[:i], n) {
				faults.Addf(at, "version %d is listed twice; expected each version once", n)
			}
		}
	case p.Latest < 1:
		faults.Addf(key, "latest is %d; expected at least 1", p.Latest)
	}
}

// named is a version that a key of the manifest names.
type named struct {
	key    string
	number int64
}

// named lists the versions that labels and traffic name.
func (m *Manifest) named() []named {
	var all []named
	for _, label := range sortedKeys(m.Versions.Labels) {
		all = append(all, named{"versions.labels." + label, m.Versions.Labels[label]})
	}
	return append(all, m.Traffic.names()...)
}

// choose returns the versions to serve. missing are the numbers that the manifest asks for and that do not exist: the
// others are served without them. faults are the contradictions to the policy, and the missing versions where nothing
// is left to serve. versions ascends by number; so does selected.
func (m *Manifest) choose(versions []Version) (selected []Version, missing, faults config.Faults) {
	good := slices.DeleteFunc(slices.Clone(versions), func(v Version) bool { return !usable(v) })
	all := m.named()
	switch p := m.Versions.Policy; {
	case p.All:
		selected = good
	case p.Specific != nil:
		for i, n := range p.Specific {
			version, ok := find(good, n)
			if !ok {
				missing.Addf(fmt.Sprintf("versions.policy.specific[%d]", i), "%s", whyMissing(n, versions))
				continue
			}
			selected = append(selected, version)
		}
		slices.SortFunc(selected, byNumber)
	default:
		// A version that arrives must not make the manifest contradict itself: versions that a label or the traffic
		// names stay.
		newest := good[max(len(good)-p.Latest, 0):]
		for _, v := range good {
			_, isNew := find(newest, v.Number)
			if isNew || slices.ContainsFunc(all, func(n named) bool { return n.number == v.Number }) {
				selected = append(selected, v)
			}
		}
	}
	for _, n := range all {
		_, chosen := find(selected, n.number)
		switch specific := m.Versions.Policy.Specific; {
		case chosen || n.number < 1:
		// whether it is there or not, so that removing it mends nothing
		case specific != nil && !slices.Contains(specific, n.number):
			faults.Addf(n.key, "version %d is not selected by versions.policy, which selects %s; expected one that "+
				"versions.policy selects: add it there, or name another", n.number, listNumbers(specific))
		default:
			missing.Addf(n.key, "%s", whyMissing(n.number, versions))
		}
	}
	if len(selected) == 0 {
		return nil, nil, append(missing, faults...)
	}
	return selected, missing, faults
}

// whyMissing says why version n, which is not among the usable ones, cannot be had.
func whyMissing(n int64, versions []Version) string {
	if v, ok := find(versions, n); ok {
		return fmt.Sprintf("version %d cannot be served: %v", n, v.Err)
	}
	return fmt.Sprintf("version %d does not exist; expected one of those that the model has, %s", n, numbers(versions))
}
