package host

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// division is how a model's traffic is divided: what was asked for, and what is published of it.
type division struct {
	stated *modelrepo.Traffic // what the manifest said last
	wanted *catalog.Traffic   // what was asked for last; nil: nothing. Its revision means nothing
	public *catalog.Traffic
	// derived is the wanted traffic that public came from. It differs from wanted while a version of that is not ready and the
	// traffic before still works.
	derived  *catalog.Traffic
	revision uint64 // of the latest public
}

// state takes what the manifest says. A change at run time holds until the manifest says something else.
func (d *division) state(t *modelrepo.Traffic) {
	if reflect.DeepEqual(d.stated, t) {
		return
	}
	d.stated = t
	d.wanted = fromManifest(t)
}

func fromManifest(t *modelrepo.Traffic) *catalog.Traffic {
	if t == nil {
		return nil
	}
	c := &catalog.Traffic{Source: "model.yaml"}
	for _, s := range t.Split {
		c.Split = append(c.Split, catalog.Slot{Name: s.Slot, Version: s.Version, Weight: s.Weight})
	}
	for _, s := range t.Shadow {
		c.Shadow = append(c.Shadow, catalog.Shadow{Version: s.Version, Sample: s.Sample, PerRequest: s.Per == modelrepo.PerRequest, Tolerance: s.Tolerance})
	}
	return c
}

// resolve derives what is published from what is wanted: all of it when every version of the split is ready. Until then the
// traffic before stays if it works, so that nobody is led to a version that is not there yet. Where it does not work, the parts
// whose versions are ready answer; if there are none it is published whole, because a version that it does not name, such as a
// shadow, must not answer. Shadows that are not ready are left out.
func (d *division) resolve(ready func(int64) bool) {
	if d.wanted == nil {
		d.public, d.derived = nil, nil
		return
	}
	next := &catalog.Traffic{Source: d.wanted.Source, Split: readySlots(d.wanted.Split, ready)}
	whole := len(next.Split) == len(d.wanted.Split)
	if !whole && d.public != nil && d.derived != d.wanted && len(readySlots(d.public.Split, ready)) == len(d.public.Split) {
		return
	}
	if !whole && !slices.ContainsFunc(next.Split, func(s catalog.Slot) bool { return s.Weight > 0 }) {
		next.Split = d.wanted.Split
	}
	next.Shadow = slices.DeleteFunc(slices.Clone(d.wanted.Shadow), func(s catalog.Shadow) bool { return !ready(s.Version) })
	d.derived = d.wanted
	if p := d.public; p != nil && p.Source == next.Source && slices.Equal(p.Split, next.Split) && slices.Equal(p.Shadow, next.Shadow) {
		return
	}
	d.revision++
	next.Revision = d.revision
	d.public = next
}

func readySlots(split []catalog.Slot, ready func(int64) bool) []catalog.Slot {
	return slices.DeleteFunc(slices.Clone(split), func(s catalog.Slot) bool { return !ready(s.Version) })
}

// naming returns what of the traffic, wanted or published, names the version.
func (d *division) naming(number int64) []string {
	var names []string
	for _, t := range []*catalog.Traffic{d.wanted, d.public} {
		if t == nil {
			continue
		}
		for _, s := range t.Split {
			if s.Version == number {
				names = append(names, fmt.Sprintf("slot %q of the traffic", s.Name))
			}
		}
		for _, s := range t.Shadow {
			if s.Version == number {
				names = append(names, "a shadow of the traffic")
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// SetTraffic divides a model's traffic anew, at once and as a whole, and returns what is published. Nil is the newest ready
// version for everything. Where expected is not 0, it must be the present revision. The revision of t is not looked at; its
// Source is "SetTraffic" if it is empty. The change holds until the next one, or until the manifest says something else than
// before. The error is catalog.ErrUnknown, wrapped, a *catalog.TrafficError, a *catalog.NotReadyError or a *catalog.RevisionError.
func (h *Host) SetTraffic(name string, t *catalog.Traffic, expected uint64) (public *catalog.Traffic, err error) {
	next := &catalog.Traffic{Source: "SetTraffic"}
	if t != nil {
		next.Split, next.Shadow = slices.Clone(t.Split), slices.Clone(t.Shadow)
		if t.Source != "" {
			next.Source = t.Source
		}
	}
	if err := next.Check(); err != nil {
		return nil, err
	}
	h.update(func() bool {
		m := h.models[name]
		if m == nil {
			err = fmt.Errorf("model %q: %w", name, catalog.ErrUnknown)
			return false
		}
		for _, n := range versionsOf(next) {
			if err = m.mustBeReady(name, n); err != nil {
				return false
			}
		}
		var current uint64
		if m.traffic.public != nil {
			current = m.traffic.public.Revision
		}
		if expected != 0 && expected != current {
			err = &catalog.RevisionError{Model: name, Current: current, Expected: expected}
			return false
		}
		m.traffic.wanted = next
		m.traffic.resolve(m.ready)
		public = m.traffic.public
		return true
	})
	if err == nil {
		h.settleLater(name) // a version that nothing names any more may go
	}
	return public, err
}

// mustBeReady returns a *catalog.NotReadyError unless the version takes requests.
func (m *model) mustBeReady(name string, number int64) error {
	if m.ready(number) {
		return nil
	}
	err := &catalog.NotReadyError{Model: name, Version: number}
	if e := m.versions[number]; e != nil {
		err.State = e.public.State
	}
	return err
}

// versionsOf returns the versions that a traffic names, some of them perhaps twice.
func versionsOf(t *catalog.Traffic) []int64 {
	var all []int64
	for _, s := range t.Split {
		all = append(all, s.Version)
	}
	for _, s := range t.Shadow {
		all = append(all, s.Version)
	}
	return all
}
