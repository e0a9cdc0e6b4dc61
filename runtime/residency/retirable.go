package residency

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weftserve/weft/runtime/modelrepo"
)

// busyState is the known state of the episodes of a version that is retirable.
type busyState struct {
	asked bool
	idle  bool
	again time.Time // when they are asked about again
	last  time.Time // when one that runs was last heard of, as was answered for the time until then
}

const (
	// busyEvery is the time between questions about a version that stays because episodes run on it.
	busyEvery = time.Second
	// mostBusy is how many versions of a model may stay for nothing but that. Episodes that never end would keep every
	// version that there ever was.
	mostBusy = 4
)

// unload drains the first version that is to go, or asks whether episodes run on it.
func (m *Machine) unload(model *Model, wanted []Candidate) bool {
	retirable, kept := model.retirable(wanted)
	m.noteKept(model, kept)
	if v := m.leastUsed(model, retirable); v != nil {
		m.log(Log{
			slog.LevelWarn, "episodes lose their version",
			[]any{
				"event", "episodes_moved", "model", model.Name, "version", v.Number, "silent", m.now.Sub(v.busy.last),
				"cause", fmt.Sprintf("more than %d versions stay for their episodes", mostBusy),
			},
		})
		m.drain(model, v)
		return true
	}
	asked := false
	for _, n := range retirable {
		v := model.Versions[n]
		if !m.mayHaveEpisodes(model, v) || v.busy.idle {
			m.drain(model, v)
			return true
		}
		if !v.busy.asked && !m.now.Before(v.busy.again) {
			v.busy.asked, asked = true, true
			m.start(model, AskBusy{model.Name, n})
		}
	}
	return asked
}

// mayHaveEpisodes reports whether a version that is retirable may have to stay for the episodes that run on it.
func (m *Machine) mayHaveEpisodes(model *Model, v *Version) bool {
	return m.config.AsksBusy && v.ready() && !v.override && model.listed != nil && !model.resourceFirst()
}

// leastUsed returns the version that is to go although episodes run on it, because too many stay for that: the one of
// whose episodes nothing was heard for longest. Nil: none is.
func (m *Machine) leastUsed(model *Model, retirable []int64) (least *Version) {
	stay := 0
	for _, n := range retirable {
		v := model.Versions[n]
		if v.busy.asked || v.busy.last.IsZero() || m.now.After(v.busy.again.Add(busyEvery)) || !m.mayHaveEpisodes(model, v) {
			continue
		}
		if stay++; least == nil || v.busy.last.Before(least.busy.last) {
			least = v
		}
	}
	if stay <= mostBusy {
		return nil
	}
	return least
}

// busyAnswered notes whether episodes run on a version.
func (m *Machine) busyAnswered(e BusyAnswered) {
	model, v := m.end(e.Model, e.Number)
	v.busy = busyState{idle: e.LastUse.IsZero(), last: e.LastUse}
	if !v.busy.idle {
		v.busy.again = m.now.Add(busyEvery)
		m.emit(WakeAt{e.Model, v.busy.again})
	}
	m.converge(model)
	v.busy.idle = false // it holds for now only
}

// drain begins to unload a version. If nothing of it is resident, it is gone at once.
func (m *Machine) drain(model *Model, v *Version) {
	if v.Resident == nil {
		m.tellUnloaded(model, v, nil)
		m.forget(model, v)
		return
	}
	v.State = Draining
	e := Drain{Model: model.Name, Number: v.Number}
	for _, r := range v.Resident.Replicas {
		e.Replicas = append(e.Replicas, r.ID)
	}
	m.touch(model, v)
	m.start(model, e)
}

// drained forgets a version, and shows the state that is left under its number.
func (m *Machine) drained(e Drained) {
	model, v := m.end(e.Model, e.Number)
	if e.Interrupted {
		return // Closed drains it again
	}
	m.tellUnloaded(model, v, e.Err)
	m.forget(model, v)
}

// tellUnloaded logs that a version was unloaded. The caller that unloads it by override, or closes all, learns of it
// from the shell.
func (m *Machine) tellUnloaded(model *Model, v *Version, unclean error) {
	switch {
	case m.closing, v.override, v.latest == 0: // or it never was loaded
	case unclean != nil:
		m.log(Log{
			slog.LevelError, "version not unloaded cleanly",
			[]any{"event", "version_unload_failed", "model", model.Name, "version", v.Number, "cause", unclean},
		})
	default:
		m.log(Log{
			slog.LevelInfo, "version unloaded",
			[]any{"event", "version_unloaded", "model", model.Name, "version", v.Number},
		})
	}
}

func (m *Machine) forget(model *Model, v *Version) {
	delete(model.Versions, v.Number)
	m.touch(model, nil)
	if m.closing || model.listed == nil {
		return
	}
	if c := model.Want(v.Number); c != nil {
		model.Versions[v.Number] = &Version{
			Number: v.Number, State: Loading, Of: *c, blamed: v.blamed,
			latest: v.latest,
		}
	} else if !v.override {
		model.showFault(v.Number)
	}
}

// showFault publishes that a version cannot be served as it lies in the repository, if that is so.
func (m *Model) showFault(number int64) {
	found := numbered(m.listed, number)
	if found == nil || found.Err == nil {
		return
	}
	v := &Version{Number: number, State: Failed, Cause: Hide(found.Err, m.listed.Dir)}
	v.Of = Candidate{Model: m.Name, Version: *found}
	if before := m.Versions[number]; before != nil {
		v.revision, v.blamed = before.revision+1, before.blamed
	}
	m.Versions[number] = v
}

// retirable returns the versions that may go now, ascending, and why others stay that are not wanted either: because
// something names them, or because the versions wanted in their stead cannot be loaded.
func (m *Model) retirable(wanted []Candidate) (retirable []int64, kept map[int64]string) {
	keep, kept := map[int64]bool{}, map[int64]string{}
	for _, c := range wanted {
		keep[c.Version.Number] = true
	}
	g := m.gaps(m.own())
	for _, n := range slices.Sorted(maps.Keys(m.Versions)) {
		v := m.Versions[n]
		if v.override || m.mustMakeRoom(v, wanted) {
			retirable = append(retirable, n)
			continue
		}
		// A step stays for its pipelines also if its files are gone or broken now.
		if keep[n] || m.mayComeBack(n) || v.Resident != nil && m.isStep(&v.Resident.Of.Version) {
			continue
		}
		by := m.NamedBy(n)
		gone := m.listed == nil || numbered(m.listed, n) == nil
		var why string
		switch {
		case m.listed != nil && len(by) > 0:
			why = "named by " + strings.Join(by, " and ")
		case !v.StepOnly && !g.canSpare(n, gone):
			why = fmt.Sprintf("version %s, wanted in its stead, cannot be loaded", list(g.failed))
		default:
			retirable = append(retirable, n)
			continue
		}
		if len(g.pending) == 0 { // else it may go in a moment
			kept[n] = why
		}
	}
	return retirable, kept
}

// mustMakeRoom reports whether a version goes before its changed files are loaded.
func (m *Model) mustMakeRoom(v *Version, wanted []Candidate) bool {
	return m.resourceFirst() && v.Resident != nil &&
		slices.ContainsFunc(m.due(wanted), func(c Candidate) bool { return c.Version.Number == v.Number })
}

// mayComeBack reports whether a version that cannot be loaded as it lies in the repository now is not given up: because
// it is being copied, because it is to be served once it is mended, or because there is nothing but its failure, which
// is shown.
func (m *Model) mayComeBack(number int64) bool {
	if m.listed == nil {
		return false
	}
	v := numbered(m.listed, number)
	if v == nil || v.Err == nil {
		return false
	}
	return m.Versions[number].Resident == nil || errors.Is(v.Err, modelrepo.ErrCopying) || m.overrides[number].Loaded ||
		m.wouldSelect(number)
}

// wouldSelect reports whether the policy would select a version if it could be loaded.
func (m *Model) wouldSelect(number int64) bool {
	switch p := m.listed.Manifest.Versions.Policy; {
	case p.All:
		return true
	case p.Specific != nil:
		return slices.Contains(p.Specific, number)
	default:
		above := 0
		for _, v := range m.listed.Versions {
			if v.Number > number && v.Err == nil {
				above++
			}
		}
		return above < p.Latest
	}
}

// gaps are the wanted versions that are not ready.
type gaps struct {
	pending, failed []int64
	highest         int64 // version that is wanted and ready; 0: none is
}

func (m *Model) gaps(wanted []Candidate) (g gaps) {
	if m.listed == nil || m.resourceFirst() {
		return g // nothing is waited for
	}
	for _, c := range wanted {
		n := c.Version.Number
		switch v := m.Versions[n]; {
		case v.ready():
			g.highest = n // they ascend
		case v != nil && v.failure != nil && v.failure.of.alike(&c):
			g.failed = append(g.failed, n)
		default:
			g.pending = append(g.pending, n)
		}
	}
	return g
}

// canSpare reports whether a version that is not wanted may go although some that are wanted are not ready. One whose
// directory is gone may as soon as another one answers. Any other waits for the ones that are still being loaded, and
// makes no room for the ones that failed unless a newer one answers: else a bad new version would take a good one down.
func (g *gaps) canSpare(number int64, gone bool) bool {
	newer := g.highest > number
	switch {
	case len(g.pending)+len(g.failed) == 0:
		return true
	case len(g.pending) > 0:
		return gone && newer
	}
	return newer || gone && g.highest > 0
}

// noteKept logs versions that stay although the policy does not select them any more, once for each reason.
func (m *Machine) noteKept(model *Model, kept map[int64]string) {
	for _, n := range slices.Sorted(maps.Keys(kept)) {
		v := model.Versions[n]
		if v.Resident == nil || v.kept == kept[n] {
			continue
		}
		v.kept = kept[n]
		m.log(Log{
			slog.LevelWarn, "version stays although it is not selected",
			[]any{"event", "version_kept", "model", model.Name, "version", n, "cause", kept[n]},
		})
	}
}

// list words version numbers.
func list(numbers []int64) string {
	var words []string
	for _, n := range numbers {
		words = append(words, strconv.FormatInt(n, 10))
	}
	return strings.Join(words, ", ")
}
