package rollout

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/weftserve/weft/runtime/catalog"
)

// host is a Traffic with one model, "m".
type host struct {
	mu      sync.Mutex
	model   *catalog.Model
	refuse  error // the error that SetTraffic returns
	changes int
	kept    []catalog.Decision // that were made
}

func newHost(versions ...int64) *host {
	m := &catalog.Model{Name: "m"}
	for _, n := range versions {
		m.Versions = append(m.Versions, &catalog.Version{Model: "m", Number: n, State: catalog.Ready})
	}
	return &host{model: m}
}

func (h *host) Snapshot() *catalog.Snapshot {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &catalog.Snapshot{Models: catalog.ByName(h.model)}
}

func (h *host) SetTraffic(model string, t *catalog.Traffic, expected uint64) (*catalog.Traffic, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refuse != nil {
		return nil, h.refuse
	}
	if err := t.Check(); err != nil {
		return nil, err
	}
	if model != "m" {
		return nil, errors.New("no such model")
	}
	present := uint64(0)
	if h.model.Traffic != nil {
		present = h.model.Traffic.Revision
	}
	if expected != 0 && expected != present {
		return nil, fmt.Errorf("the revision is %d, not %d", present, expected)
	}
	for _, s := range t.Split {
		if h.model.Version(s.Version) == nil {
			return nil, fmt.Errorf("no version %d", s.Version)
		}
	}
	set := *t
	set.Revision = present + 1
	changed := *h.model
	changed.Traffic = &set
	h.model = &changed
	h.changes++
	return &set, nil
}

func (h *host) Decide(model string, d catalog.Decision) (*catalog.Traffic, error) {
	if d.Traffic == nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.kept = append(h.kept, d)
		return nil, h.refuse
	}
	set, err := h.SetTraffic(model, d.Traffic, d.Expected)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.kept = append(h.kept, d)
	}
	return set, err
}

// put gives version a state; 0 takes it away.
func (h *host) put(number int64, state catalog.State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	changed := *h.model
	changed.Versions = slices.DeleteFunc(slices.Clone(changed.Versions),
		func(v *catalog.Version) bool { return v.Number == number })
	if state != 0 {
		changed.Versions = append(changed.Versions, &catalog.Version{Model: "m", Number: number, State: state})
		slices.SortFunc(changed.Versions, func(a, b *catalog.Version) int { return int(a.Number - b.Number) })
	}
	h.model = &changed
}

func (h *host) setRefusal(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuse = err
}

func (h *host) shadows() []catalog.Shadow {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.model.Traffic.Shadow
}

// split returns the traffic in words.
func (h *host) split() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var s strings.Builder
	for _, slot := range h.model.Traffic.Split {
		fmt.Fprintf(&s, "%s %d: %v, ", slot.Name, slot.Version, slot.Weight)
	}
	fmt.Fprintf(&s, "%d shadows by %s", len(h.model.Traffic.Shadow), h.model.Traffic.Source)
	return s.String()
}
