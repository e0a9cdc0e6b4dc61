package residency

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/decisions"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// Model is a name, the versions under it, and their wanted state.
type Model struct {
	Name  string
	Cause string // why nothing of it can be read now; "": nothing is wrong
	// Elsewhere: other replicas serve it, so that nothing of it is wanted here.
	Elsewhere *catalog.ElsewhereError
	Versions  map[int64]*Version
	// Decided is the state in force by manifest and by decision. Kept: decisions are kept beyond the life of the
	// process.
	Decided decisions.Model
	Kept    bool
	// Labels are those to publish. A map is replaced, never changed.
	Labels  map[string]int64
	Traffic division

	listed    *modelrepo.Model // as it was last found without a fault; nil: it is gone, or never was without one
	found     *modelrepo.Model // as it was last found; nil: it is gone
	overrides map[int64]decisions.ByHand
	waiting   map[int64]int // callers that wait until a version is loaded
	running   int           // count of the effects that have not ended
	asks      map[step]bool // the steps of its pipelines
	asked     map[step]int  // that of the Machine
}

func newModel(name string, recalled *decisions.Model) *Model {
	m := &Model{
		Name: name, Versions: map[int64]*Version{}, overrides: map[int64]decisions.ByHand{}, waiting: map[int64]int{},
	}
	if recalled != nil {
		m.Decided, m.Kept = *recalled, true
		maps.Copy(m.overrides, recalled.ByHand)
	} else {
		m.Decided, _ = m.Decided.Follow(decisions.Manifest{}, time.Time{})
	}
	m.Traffic.Public = m.Decided.Traffic
	return m
}

// Recalled returns a model when only the decisions about it are known; nil: none.
func Recalled(name string, recalled *decisions.Model) *Model { return newModel(name, recalled) }

// Converged reports whether nothing is running for the model.
func (m *Model) Converged() bool { return m.running == 0 }

// Empty reports whether nothing is left of the model: neither in the repository nor here.
func (m *Model) Empty() bool {
	return m.listed == nil && len(m.Versions) == 0 && m.Cause == "" && m.Elsewhere == nil
}

// Ready reports whether a version takes requests.
func (m *Model) Ready(number int64) bool { return m.Versions[number].ready() }

// Want returns the version if it is to be resident, else nil.
func (m *Model) Want(number int64) *Candidate {
	for _, c := range m.wanted() {
		if c.Version.Number == number {
			return &c
		}
	}
	return nil
}

func among(all []Candidate, number int64) bool {
	return slices.ContainsFunc(all, func(c Candidate) bool { return c.Version.Number == number })
}

// wanted returns the versions that are to be resident, ascending: the ones that are wanted for themselves, and the ones
// that pipelines ask as steps, unless somebody unloaded them by override.
func (m *Model) wanted() []Candidate {
	all := m.own()
	if m.listed == nil || len(m.asked) == 0 {
		return all
	}
	for _, v := range m.listed.Versions {
		said, overridden := m.overrides[v.Number]
		if v.Err == nil && m.isStep(&v) && !among(all, v.Number) && !(overridden && !said.Loaded) {
			all = append(all, m.candidate(v))
		}
	}
	slices.SortFunc(all, func(a, b Candidate) int { return cmp.Compare(a.Version.Number, b.Version.Number) })
	return all
}

// own returns the versions that are wanted for themselves, ascending: the ones that the policy selects, and the ones
// that were asked for by name and are not resident, such as after a restart of the server; overrides count more than
// either.
func (m *Model) own() []Candidate {
	if m.listed == nil {
		return nil
	}
	var all []Candidate
	copied := false
	for _, v := range slices.Backward(m.listed.Versions) {
		copied = copied || errors.Is(v.Err, modelrepo.ErrCopying) && m.Ready(v.Number)
		// While the files of a version that serves are being replaced, the policy selects a lower one. It is not loaded
		// for that moment.
		wanted := m.selected(v.Number) && !(copied && m.Versions[v.Number] == nil) || m.missed(v)
		if said, ok := m.overrides[v.Number]; ok {
			wanted = said.Loaded && v.Err == nil
		}
		if wanted {
			all = append(all, m.candidate(v))
		}
	}
	slices.Reverse(all)
	return all
}

func (m *Model) candidate(v modelrepo.Version) Candidate {
	return Candidate{Model: m.Name, Version: v, Manifest: m.listed.Settings(&v)}
}

// selected reports whether the policy selects a version. One that was rolled back does not count as one of the latest.
func (m *Model) selected(number int64) bool {
	if m.listed == nil {
		return false
	}
	if slices.ContainsFunc(m.listed.Selected, func(v modelrepo.Version) bool { return v.Number == number }) {
		return true
	}
	left := m.listed.Manifest.Versions.Policy.Latest
	for _, v := range slices.Backward(m.listed.Versions) {
		if left == 0 || len(m.Decided.RolledBack) == 0 {
			break
		}
		if v.Err != nil || m.rolledBack(v.Number) {
			continue
		}
		if v.Number == number {
			return true
		}
		left--
	}
	return false
}

func (m *Model) rolledBack(number int64) bool {
	return slices.ContainsFunc(m.Decided.RolledBack, func(r catalog.RolledBack) bool { return r.Version == number })
}

// UnloadedByHand returns the versions that the policy selects and that are not here, because somebody unloaded them,
// maybe before the process began; ascending.
func (m *Model) UnloadedByHand() (numbers []int64) {
	for number, said := range m.overrides {
		if !said.Loaded && m.Versions[number] == nil && m.selected(number) {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return numbers
}

// missed reports whether a version that somebody asked for by name at run time is not resident, but could be.
func (m *Model) missed(v modelrepo.Version) bool {
	e := m.Versions[v.Number]
	return v.Err == nil && (e == nil || e.Resident == nil) && m.Decided.Names(v.Number)
}

// NamedBy returns the labels and parts of the traffic that lead requests to the version by its number.
func (m *Model) NamedBy(number int64) []string {
	return append(m.labelsNaming(number), m.Traffic.naming(m.Decided.Traffic, number)...)
}

// resourceFirst reports whether old versions make room before new ones are loaded.
func (m *Model) resourceFirst() bool {
	return m.listed != nil && m.listed.Manifest.Versions.Transition == modelrepo.ResourceFirst
}
