package modelrepo

import (
	"fmt"
	"slices"

	"github.com/weftserve/weft/internal/config"
)

// Versions says which versions are served and what they are called.
type Versions struct {
	// Policy selects the versions that are served, default {latest: 1}.
	Policy Policy `yaml:"policy" config:"replace"`
	// Labels are names of versions that requests may use, such as stable: 3. A label names a selected version.
	Labels map[string]int64 `yaml:"labels,omitempty,flow"`
}

// Policy selects versions; exactly one field is set. In files it is all, {latest: N} or {specific: [N, ...]}.
type Policy struct {
	All bool `yaml:"-"`
	// Latest selects the N highest numbers, N at least 1. More versions side by side take more memory.
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
				faults.Addf(at, "version %d is listed twice", n)
			}
		}
	case p.Latest < 1:
		faults.Addf(key, "latest is %d; expected at least 1", p.Latest)
	}
}

// apply returns the versions that the policy selects and, as faults, the numbers that it asks for in vain.
// versions ascends by number; so does the result.
func (v *Versions) apply(versions []Version) (selected []Version, faults config.Faults) {
	good := slices.DeleteFunc(slices.Clone(versions), func(v Version) bool { return !usable(v) })
	switch p := v.Policy; {
	case p.All:
		selected = good
	case p.Specific != nil:
		for i, n := range p.Specific {
			version, ok := find(good, n)
			if !ok {
				faults.Addf(fmt.Sprintf("versions.policy.specific[%d]", i), "%s", missing(n, versions))
				continue
			}
			selected = append(selected, version)
		}
		slices.SortFunc(selected, byNumber)
	default:
		selected = good[max(len(good)-p.Latest, 0):]
	}
	for _, label := range sortedKeys(v.Labels) {
		n, key := v.Labels[label], "versions.labels."+label
		if _, ok := find(selected, n); ok || n < 1 {
			continue
		}
		if _, ok := find(good, n); ok {
			faults.Addf(key, "version %d is not selected by versions.policy, which selects %s; select it or move the label", n, numbers(selected))
			continue
		}
		faults.Addf(key, "%s", missing(n, versions))
	}
	return selected, faults
}

// missing says why version n, which is not among the usable ones, cannot be had.
func missing(n int64, versions []Version) string {
	if v, ok := find(versions, n); ok {
		return fmt.Sprintf("version %d cannot be served: %v", n, v.Err)
	}
	return fmt.Sprintf("version %d does not exist; the model has %s", n, numbers(versions))
}
