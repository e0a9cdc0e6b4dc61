package host

import (
	"errors"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/decisions"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/sharedsched"
)

// model is a name and its versions. All of it but turn is guarded by Host.mu.
type model struct {
	// turn is held, as the one element that it has room for, by whoever loads, replaces, moves or unloads versions of the model.
	// Who has it can rely on the model and on each version that is being loaded or unloaded: they are forgotten only under it.
	turn chan struct{}
	// coming is closed when the settler that waits for its turn has settled the model; nil while none waits.
	coming chan struct{}

	cause    string
	versions map[int64]*entry

	// listed is the model as it was last found in the repository without a fault. Nil: it is gone, or never was without one.
	listed *modelrepo.Model
	// byHand are the versions that somebody loaded or unloaded by hand, against the policy. Those that are not loaded yet are not kept.
	byHand  map[int64]decisions.ByHand
	waiting map[int64]int // how many callers of LoadVersion wait for each version
	again   bool          // a timer will have the model settled once more
	// published are the numbers in the scheduler that lead to its versions in what is published.
	published []sharedsched.VersionID

	// decided is what the manifest said last and what was decided at run time; kept says that a Keeper has it, but for what the manifest
	// said later of what nobody decided. Both change with Host.deciding held too.
	decided decisions.Model
	kept    bool
	labels  map[string]int64 // that are published; replaced, never changed
	traffic division
}

// entry is a version in whatever state. Guarded by Host.mu.
type entry struct {
	// resident is nil until the version was added to the scheduler, and where it failed to load.
	resident *version
	public   *catalog.Version
	claimed  bool   // somebody unloads it
	loading  bool   // somebody loads it, beside the resident if there is one
	kept     string // why it stays although it is not selected, as the log says
	failure  *failure
	demotion *demotion // of what is resident, or was until its devices were lost; nil for none
	// broke are devices that were lost in a run of what has the fingerprint, the latest at brokeAt.
	broke       []string
	brokeAt     time.Time
	fingerprint string
}

// failure is what became of the latest attempts to load a version.
type failure struct {
	of       candidate
	attempts int
	cause    error
	due      bool        // it is time for another attempt
	timer    *time.Timer // makes it due; nil: nothing does by itself
}

// stop keeps the failure from becoming due by itself. f may be nil.
func (f *failure) stop() {
	if f != nil && f.timer != nil {
		f.timer.Stop()
	}
}

// ready reports whether a version takes requests.
func (m *model) ready(number int64) bool {
	e := m.versions[number]
	return e != nil && e.public.State == catalog.Ready
}

// empty reports whether there is nothing of the model: neither in the repository nor here.
func (m *model) empty() bool { return m.listed == nil && len(m.versions) == 0 && m.cause == "" }

// selected reports whether the policy selects a version. One that was rolled back does not count as one of the latest.
func (m *model) selected(number int64) bool {
	if m.listed == nil {
		return false
	}
	if slices.ContainsFunc(m.listed.Selected, func(v modelrepo.Version) bool { return v.Number == number }) {
		return true
	}
	left := m.listed.Manifest.Versions.Policy.Latest
	for _, v := range slices.Backward(m.listed.Versions) {
		if left == 0 || len(m.decided.RolledBack) == 0 {
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

// rolledBack reports whether a version was rolled back.
func (m *model) rolledBack(number int64) bool {
	return slices.ContainsFunc(m.decided.RolledBack, func(r catalog.RolledBack) bool { return r.Version == number })
}

// wanted returns the versions that are to be resident, ascending: what the policy selects, and what was asked for by name and is not
// resident, such as after the server was started anew; but for what was done by hand.
func (m *model) wanted() []candidate {
	if m.listed == nil {
		return nil
	}
	var all []candidate
	copied := false
	for _, v := range slices.Backward(m.listed.Versions) {
		copied = copied || errors.Is(v.Err, modelrepo.ErrCopying) && m.ready(v.Number)
		// While the files of a version that serves are being replaced, a lower one is selected in its stead. It is not loaded for
		// that moment.
		wanted := m.selected(v.Number) && !(copied && m.versions[v.Number] == nil) || m.missed(v)
		if said, ok := m.byHand[v.Number]; ok {
			wanted = said.Loaded && v.Err == nil
		}
		if wanted {
			all = append(all, candidate{model: m.listed.Name, version: v, manifest: &m.listed.Manifest})
		}
	}
	slices.Reverse(all)
	return all
}

// missed reports whether a version is not resident, and could be, that somebody asked for by name at run time.
func (m *model) missed(v modelrepo.Version) bool {
	e := m.versions[v.Number]
	return v.Err == nil && (e == nil || e.resident == nil) && m.decided.Names(v.Number)
}

// want returns the version if it is to be resident, else nil.
func (m *model) want(number int64) *candidate {
	for _, c := range m.wanted() {
		if c.version.Number == number {
			return &c
		}
	}
	return nil
}

// due returns those of the wanted versions that are to be loaded now.
func (m *model) due(wanted []candidate) []candidate {
	return slices.DeleteFunc(slices.Clone(wanted), func(c candidate) bool {
		e := m.versions[c.version.Number]
		switch {
		case e == nil:
			return false
		case e.claimed, e.loading, e.public.State == catalog.Unloading, e.current(c):
			return true
		case e.failure == nil:
			return false
		}
		return !e.failure.due && e.failure.of.alike(c)
	})
}

// current reports whether what is resident is what the candidate would be.
func (e *entry) current(c candidate) bool {
	if e.resident == nil || !e.resident.ready.Load() {
		return false
	}
	from := &e.resident.from.version
	return from.Fingerprint == c.version.Fingerprint && from.Dir == c.version.Dir && !needsReload(e.resident, c.manifest)
}

// namedBy returns who leads requests to the version by its number: labels and parts of the traffic.
func (m *model) namedBy(number int64) []string {
	return append(m.labelsNaming(number), m.traffic.naming(m.decided.Traffic, number)...)
}
