package residency_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/race"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/decisions"
	"github.com/weftserve/weft/runtime/fleet/placement"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/residency"
)

// history is a random one: the repository's content, and a shell.
type history struct {
	*shell

	rng   *rand.Rand
	there map[string]residency.ListedModel
	once  bool // residency.Config.TryOnce
}

func newHistory(seed uint64) *history {
	rng := rand.New(rand.NewPCG(seed, 7))
	c := residency.Config{AsksBusy: rng.IntN(2) == 0, TryOnce: rng.IntN(8) == 0, Seed: seed}
	return &history{shell: newShell(c), rng: rng, there: map[string]residency.ListedModel{}, once: c.TryOnce}
}

// happen lets one thing happen.
func (h *history) happen() error {
	if n := len(h.running); n > 0 && h.rng.IntN(3) > 0 {
		return h.end(h.rng.IntN(n), h.rng, false)
	}
	name := string(rune('a' + h.rng.IntN(3)))
	number := 1 + h.rng.Int64N(4)
	m := h.machine.Model(name)
	switch h.rng.IntN(15) {
	case 0, 1, 2:
		return h.list(name)
	case 3:
		return h.load(m, name, number)
	case 4:
		if m == nil || m.Versions[number] == nil || len(m.NamedBy(number)) > 0 {
			return nil
		}
		return h.step(residency.Overridden{Model: name, Number: number, By: "me"})
	case 5:
		return h.decide(name, m, number)
	case 6:
		device := sites[h.rng.IntN(len(sites))].Device
		if h.lost[device] {
			return h.restore(device)
		}
		return h.lose(device, h.someCandidate(m, number))
	case 7:
		h.now = h.now.Add(time.Duration(h.rng.Int64N(int64(10 * time.Second))))
		return h.wake()
	case 8:
		return h.step(residency.MemoryFreed{Free: h.rng.Int64N(10)})
	case 9, 10:
		for _, o := range h.machine.Outlooks(h.now) {
			e := residency.RoomSeen{Model: o.Model, Number: o.Number, Resident: o.Resident}
			for _, s := range o.Above {
				if h.rng.IntN(2) == 0 {
					e.Open = append(e.Open, s.Device)
				} else {
					e.Full = append(e.Full, catalog.FullDevice{Name: s.Device})
				}
			}
			if err := h.step(e); err != nil {
				return err
			}
		}
	case 11, 12:
		if r := residentOf(m, number); r != nil {
			fare := placement.Fare{Replicas: len(r.Replicas), Refused: h.rng.IntN(2), Spare: 1, Used: h.rng.Float64()}
			e := residency.Fared{Model: name, Number: number, Resident: r.ID, Fare: fare, Further: h.rng.IntN(2) == 0}
			for range 1 + h.rng.IntN(70) {
				if err := h.step(e); err != nil {
					return err
				}
			}
		}
	case 13:
		if r := residentOf(m, number); r != nil {
			why := "rows meet"
			return h.step(residency.Judged{Model: name, Number: number, Resident: r.ID, Demoted: &why})
		}
	case 14:
		if r := residentOf(m, number); r != nil {
			return h.step(residency.Crashed{Model: name, Number: number, Resident: r.ID, Cause: errors.New("it crashes")})
		}
	}
	return nil
}

// load loads a version by override, as far as that may be.
func (h *history) load(m *residency.Model, name string, number int64) error {
	may := m.MayOverride(nil, number, true) == nil
	if !may {
		return nil
	}
	if err := h.step(residency.Overridden{Model: name, Number: number, Load: true, By: "me"}); err != nil {
		return err
	}
	return h.step(residency.GaveUp{Model: name, Number: number, Failed: h.rng.IntN(2) == 0})
}

func residentOf(m *residency.Model, number int64) *residency.Resident {
	if m == nil || m.Versions[number] == nil {
		return nil
	}
	return m.Versions[number].Resident
}

func (h *history) someCandidate(m *residency.Model, number int64) *residency.Candidate {
	if r := residentOf(m, number); r != nil && h.rng.IntN(2) == 0 {
		return &r.Of
	}
	return nil
}

// list changes a model in the repository, and has everything there listed.
func (h *history) list(name string) error {
	if h.rng.IntN(5) == 0 {
		delete(h.there, name)
	} else {
		h.there[name] = h.someModel(name)
	}
	e := residency.Listed{Gone: h.rng.IntN(4) > 0}
	for _, name := range []string{"a", "b", "c"} {
		l, is := h.there[name]
		if !is {
			continue
		}
		l.Present = map[string]bool{}
		for n := range int64(5) {
			l.Present[fmt.Sprintf("/models/%s/%d", name, n)] = h.rng.IntN(2) == 0
		}
		e.Models = append(e.Models, l)
	}
	return h.step(e)
}

func (h *history) someModel(name string) residency.ListedModel {
	manifest := modelrepo.Defaults()
	manifest.Versions.Policy = []modelrepo.Policy{
		{Latest: 1},
		{Latest: 2},
		{All: true},
		{Specific: []int64{1, 3}},
	}[h.rng.IntN(4)]
	if h.rng.IntN(4) == 0 {
		manifest.Versions.Transition = modelrepo.ResourceFirst
	}
	manifest.Replicas = []modelrepo.Replicas{1, 1, 2, modelrepo.AutoReplicas}[h.rng.IntN(4)]
	manifest.Weight = float64(1 + h.rng.IntN(2))
	if h.rng.IntN(5) == 0 {
		manifest.Batching.Unbatched = []string{"x"}
	}
	if h.rng.IntN(3) == 0 {
		manifest.Versions.Labels = map[string]int64{"stable": 1 + h.rng.Int64N(4)}
	}
	if h.rng.IntN(3) == 0 {
		manifest.Traffic = &modelrepo.Traffic{Split: []modelrepo.SplitEntry{{
			Slot: "s", Version: 1 + h.rng.Int64N(4),
			Weight: 1,
		}}}
	}
	var versions []modelrepo.Version
	for n := range int64(4) {
		if h.rng.IntN(3) == 0 {
			continue
		}
		v := file(name, n+1, strconv.Itoa(h.rng.IntN(2)))
		switch h.rng.IntN(8) {
		case 0:
			v.Err = errors.New("there is no model.onnx")
		case 1:
			v.Err, v.Fingerprint = modelrepo.ErrCopying, ""
		case 2:
			v.Pipeline = pipeline(fmt.Sprint(string(rune('a'+h.rng.IntN(3))), "/", 1+h.rng.IntN(4)))
		}
		versions = append(versions, v)
	}
	l := listing(name, manifest, versions...)
	if h.rng.IntN(9) == 0 {
		l.Err = errors.New("model.yaml: a slip")
	}
	return l
}

// decide divides traffic, sets a label or rolls back.
func (h *history) decide(name string, m *residency.Model, number int64) error {
	if m == nil || !m.Ready(number) {
		return nil
	}
	after := m.Decided
	switch h.rng.IntN(3) {
	case 0:
		after = after.Divide(&catalog.Traffic{
			Source: "SetTraffic",
			Split:  []catalog.Slot{{Name: "s", Version: number, Weight: 1}},
		})
	case 1:
		after = after.Label("mine", decisions.Label{Version: number * h.rng.Int64N(2)})
	case 2:
		after = after.RollBack(catalog.RolledBack{Version: number})
	}
	if err := h.step(residency.Deciding{Model: name}); err != nil {
		return err
	}
	if h.rng.IntN(4) == 0 {
		return h.step(residency.Decided{Model: name})
	}
	return h.step(residency.Decided{Model: name, After: &after})
}

// settle has everything go well until nothing is left to do. The error is that it does not end, or does not end well.
func (h *history) settle() error {
	for name := range h.lost {
		if err := h.restore(name); err != nil {
			return err
		}
	}
	for range 10_000 {
		switch {
		case len(h.running) > 0:
			if err := h.end(0, h.rng, true); err != nil {
				return err
			}
		case !h.converged():
			if err := h.wake(); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return fmt.Errorf("it never settles: %s", h.state())
}

// converged reports whether all that is wanted is ready, as far as it may be.
func (h *history) converged() bool {
	for _, m := range h.machine.Models() {
		for n := range int64(5) {
			c := m.Want(n)
			if c != nil && !m.Ready(n) && h.machine.Blamed(c) == nil && !h.once && !m.Decided.Names(n) {
				return false // but for versions that are only tried again when somebody asks for them
			}
		}
	}
	return true
}

func (h *history) state() (all []string) {
	for name, m := range h.machine.Models() {
		for n, v := range m.Versions {
			all = append(all, fmt.Sprintf("%s/%d state %d wanted %v", name, n, v.State, m.Want(n) != nil))
		}
	}
	return all
}

// close closes the machine. Nothing may be left.
func (h *history) close() error {
	if err := h.step(residency.Closing{}); err != nil {
		return err
	}
	for len(h.running) > 0 {
		if err := h.end(0, h.rng, false); err != nil {
			return err
		}
	}
	if err := h.step(residency.Closed{}); err != nil {
		return err
	}
	for len(h.running) > 0 {
		if err := h.end(0, h.rng, false); err != nil {
			return err
		}
	}
	if len(h.open) > 0 {
		return fmt.Errorf("%d replicas are open in the end", len(h.open))
	}
	return nil
}

// run lets a history happen, and returns the fault, if any.
func run(seed uint64, events int) error {
	h := newHistory(seed)
	for i := range events {
		if err := h.happen(); err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
	}
	if err := h.settle(); err != nil {
		return err
	}
	return h.close()
}

// TestHistories has random ones happen, and checks the invariants after each event.
func TestHistories(t *testing.T) {
	const events = 200
	histories := weftest.Times(300, 500)
	if testing.Short() || race.Enabled {
		histories = 100 // one goroutine takes each step
	}
	for seed := range uint64(histories) {
		if err := run(seed, events); err != nil {
			t.Errorf("seed %d: %v", seed, err)
			if seed > 20 {
				return
			}
		}
	}
}

// FuzzHistories searches for worse ones.
func FuzzHistories(f *testing.F) {
	f.Add(uint64(1), uint16(100))
	f.Fuzz(func(t *testing.T, seed uint64, events uint16) {
		if err := run(seed, int(events)%500); err != nil {
			t.Error(err)
		}
	})
}
