package residency_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/fleet/placement"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/residency"
)

// shell carries out effects for the tests of this package: it keeps the ones that have not ended, and ends them when it
// is told to.
type shell struct {
	machine  *residency.Machine
	now      time.Time
	running  []residency.Effect           // started and not ended, the oldest first
	open     map[residency.ReplicaID]bool // replicas that hold something
	devices  []placement.DeviceID
	lost     map[string]bool
	replicas residency.ReplicaID
	wakes    map[string][]time.Time   // that were asked for, by model
	note     func([]residency.Effect) // hears of the effects of each step; nil: nobody does
	shown    map[string]shown         // models as they were when they were published last
}

// sites are where every version of the tests may go: two devices that it prefers, and two others.
var sites = []placement.Site{{Device: "gpu0"}, {Device: "gpu1"}, {Device: "cpu", Rank: 1}, {Device: "cpu2", Rank: 1}}

func newShell(c residency.Config) *shell {
	s := &shell{
		machine: residency.New(c), now: time.Unix(1000, 0), open: map[residency.ReplicaID]bool{},
		lost:  map[string]bool{},
		wakes: map[string][]time.Time{},
	}
	for _, site := range sites {
		s.devices = append(s.devices, placement.DeviceID{Name: site.Device})
	}
	return s
}

// step takes an event in. The error is a contradiction to the contract of effects or to an invariant.
func (s *shell) step(event residency.Event) error {
	var published []string
	effects := s.machine.Step(s.now, event)
	if s.note != nil {
		s.note(effects)
	}
	for i, effect := range effects {
		switch e := effect.(type) {
		case residency.Publish:
			if i > 0 {
				return errors.New("something is done before the state is published")
			}
			if _, lost := event.(residency.DeviceLost); !lost && len(e.Models) == 0 {
				return errors.New("nothing is published, which everybody would look at")
			}
			published = e.Models
		case residency.Load, residency.Drain, residency.Upgrade, residency.Grow, residency.Shrink,
			residency.Reconfigure, residency.AskBusy:
			if err := s.mayStart(effect); err != nil {
				return err
			}
			s.running = append(s.running, effect)
		case residency.Retire:
			if !s.open[e.Replica] {
				return fmt.Errorf("replica %d is retired, but not open", e.Replica)
			}
			if slices.Contains(s.running, effect) {
				if _, closed := event.(residency.Closed); !closed {
					return fmt.Errorf("replica %d is retired twice", e.Replica)
				}
				continue
			}
			s.running = append(s.running, effect)
		case residency.Abandon:
			if !s.open[e.Replica] {
				return fmt.Errorf("replica %d is abandoned, but not open", e.Replica)
			}
		case residency.WakeAt:
			s.wakes[e.Model] = append(s.wakes[e.Model], e.At)
		}
	}
	return errors.Join(s.checkPublished(published), s.check())
}

// shown is the state of a model to be published.
type shown struct {
	cause      string
	labels     map[string]int64
	traffic    *catalog.Traffic
	waitsFor   []int64
	rolledBack []catalog.RolledBack
	versions   map[int64]face
}

func (a *shown) same(b *shown) bool {
	return a.cause == b.cause && maps.Equal(a.labels, b.labels) && a.traffic == b.traffic &&
		slices.Equal(a.waitsFor, b.waitsFor) && slices.Equal(a.rolledBack, b.rolledBack) &&
		maps.Equal(a.versions, b.versions)
}

// face is that of a version. The shell publishes it again when it is another one, or has another revision.
type face struct {
	of       *residency.Version
	revision uint64

	state               residency.State
	cause, path, scarce string
	again               time.Time
	out, stepOnly       bool
	resident            int64
	replicas            [8]residency.ReplicaID
	manifest            *modelrepo.Manifest
}

func show(m *residency.Model) shown {
	all := shown{
		m.Cause, m.Labels, m.Traffic.Public, m.Traffic.WaitsFor, m.Decided.RolledBack, map[int64]face{},
	}
	for n, v := range m.Versions {
		f := face{
			of: v, revision: v.Revision(), state: v.State, path: v.Of.Path(), manifest: v.Of.Manifest, stepOnly: v.StepOnly,
		}
		f.again, f.out = v.TakenOut()
		if v.Cause != nil {
			f.cause = v.Cause.Text
		}
		if r := v.Resident; r != nil {
			f.resident, f.path, f.scarce, f.manifest = r.ID, r.Of.Path(), r.Scarce(), r.Settings
			for i, replica := range r.Replicas {
				f.replicas[i] = replica.ID
			}
		}
		all.versions[n] = f
	}
	return all
}

// checkPublished returns an error for a model that has changed and is not published, or not as it is.
func (s *shell) checkPublished(published []string) error {
	now := map[string]shown{}
	for name, m := range s.machine.Models() {
		now[name] = show(m)
		before, was := s.shown[name]
		for n, f := range now[name].versions { // what is scarce is not said anew while it is tried once more
			if b := before.versions[n]; b.of == f.of && b.revision == f.revision && !m.Converged() {
				f.scarce = b.scarce
				now[name].versions[n] = f
			}
		}
		next := now[name]
		if !(was && before.same(&next)) && !slices.Contains(published, name) {
			return fmt.Errorf("%s has changed, and is not published: %+v, before %+v", name, next, before)
		}
		for n, f := range now[name].versions {
			if b := before.versions[n]; b.of == f.of && b.revision == f.revision && b != f {
				return fmt.Errorf("%s/%d has changed, but not its revision: %+v, before %+v", name, n, f, b)
			}
		}
	}
	for name := range s.shown {
		if _, is := now[name]; !is && !slices.Contains(published, name) {
			return fmt.Errorf("%s is gone, which is not published", name)
		}
	}
	s.shown = now
	return nil
}

// about returns the version that an effect is about.
func about(e residency.Effect) (model string, number int64) {
	switch e := e.(type) {
	case residency.Load:
		return e.Of.Model, e.Of.Version.Number
	case residency.Reconfigure:
		return e.Of.Model, e.Of.Version.Number
	case residency.Upgrade:
		return e.Of.Model, e.Of.Version.Number
	case residency.Grow:
		return e.Of.Model, e.Of.Version.Number
	case residency.Shrink:
		return e.Model, e.Number
	case residency.Drain:
		return e.Model, e.Number
	case residency.AskBusy:
		return e.Model, e.Number
	}
	return "", 0
}

// mayStart returns an error if something is running for the version already: there would be two that publish its
// number.
func (s *shell) mayStart(e residency.Effect) error {
	model, number := about(e)
	for _, other := range s.running {
		if m, n := about(other); m == model && n == number {
			return fmt.Errorf("%T of %s/%d begins while %T is running for it", e, model, number, other)
		}
	}
	return nil
}

// check compares the machine's state with the shell's.
func (s *shell) check() error {
	if err := check(s.machine); err != nil {
		return err
	}
	running := map[string]bool{}
	for _, e := range s.running {
		if model, _ := about(e); model != "" {
			running[model] = true
		}
	}
	for name, m := range s.machine.Models() {
		if m.Converged() == running[name] {
			return fmt.Errorf("%s: effects are running: %v, converged: %v", name, running[name], m.Converged())
		}
	}
	known := map[residency.ReplicaID]bool{}
	for _, id := range s.machine.Retiring() {
		known[id] = true
	}
	for _, m := range s.machine.Models() {
		for _, v := range m.Versions {
			if v.Resident != nil {
				for _, r := range v.Resident.Replicas {
					known[r.ID] = true
				}
			}
		}
	}
	for id := range s.open {
		if !known[id] {
			return fmt.Errorf("replica %d leaks", id)
		}
	}
	for id := range known {
		if !s.open[id] {
			return fmt.Errorf("replica %d is known, but closed", id)
		}
	}
	return nil
}

// replica opens one on a device.
func (s *shell) replica(device string) residency.Replica {
	s.replicas++
	s.open[s.replicas] = true
	i := slices.IndexFunc(s.devices, func(d placement.DeviceID) bool { return d.Name == device })
	return residency.Replica{ID: s.replicas, Device: s.devices[i]}
}

// end ends the effect at a place of the list with an event that may be anything that a shell reports, or nothing but
// good.
func (s *shell) end(i int, rng *rand.Rand, good bool) error {
	e := s.running[i]
	s.running = slices.Delete(s.running, i, i+1)
	fails := func(odds int) bool { return !good && rng.IntN(odds) == 0 }
	switch e := e.(type) {
	case residency.Load:
		done := residency.Loaded{Load: e, Sites: sites}
		switch {
		case fails(3):
			done.Err, done.Interrupted = someError(rng, e), fails(3)
		default:
			done.Replicas = s.somewhere(rng, 1+rng.IntN(e.Replicas))
			if rng.IntN(3) == 0 {
				done.Wait = &residency.Wait{Why: "it waits", Need: 1, Failed: fails(2)}
			}
		}
		if len(done.Replicas) == 0 && done.Err == nil {
			done.Err = errors.New("no device is left")
		}
		return s.step(done)
	case residency.Reconfigure:
		done := residency.Reconfigured{
			Reconfigure: e, Interrupted: fails(9), Reload: fails(5),
			Proven: rng.IntN(2) == 0,
		}
		if fails(4) {
			done.Err = errors.New("it cannot follow")
		}
		if v := s.version(e.Of); !done.Reload && v != nil && v.Resident != nil && rng.IntN(2) == 0 {
			done.Moved = map[residency.ReplicaID]residency.Replica{}
			for _, r := range v.Resident.Replicas {
				if rng.IntN(3) > 0 {
					done.Moved[r.ID] = s.replica(r.Device.Name)
				}
			}
		}
		return s.step(done)
	case residency.Upgrade:
		done := residency.Upgraded{Upgrade: e, On: "cpu"}
		switch rng.IntN(6) {
		case 0:
			done.Stay = !good
		case 1:
			done.Full = []string{e.To[0].Device}
		case 2:
			done.Err, done.Short = errors.New("it fails"), rng.IntN(2) == 0
		case 3: // interrupted
		}
		if good || !done.Stay && done.Full == nil && done.Err == nil && rng.IntN(3) > 0 {
			to := s.replica(e.To[rng.IntN(len(e.To))].Device)
			done = residency.Upgraded{Upgrade: e, To: &to}
		}
		return s.step(done)
	case residency.Grow:
		done := residency.Grown{Grow: e}
		free := s.freeFor(e.Of)
		switch {
		case fails(4):
			done.Err = errors.New("no room")
		case fails(9): // interrupted
		case len(free) == 0:
			done.Err = errors.New("no further device")
		default:
			r := s.replica(free[rng.IntN(len(free))])
			done.Replica = &r
		}
		return s.step(done)
	case residency.Shrink:
		return s.step(residency.Shrunk{
			Model: e.Model, Number: e.Number,
			Replica: e.Replicas[rng.IntN(len(e.Replicas))].ID,
		})
	case residency.Drain:
		done := residency.Drained{Model: e.Model, Number: e.Number}
		if fails(9) {
			done.Err = errors.New("the engine complains")
		}
		retiring := s.machine.Retiring()
		for _, id := range e.Replicas {
			if !slices.Contains(retiring, id) { // else its device was lost, and it is retired by itself
				delete(s.open, id)
			}
		}
		return s.step(done)
	case residency.Retire:
		delete(s.open, e.Replica)
		return s.step(residency.Retired(e))
	case residency.AskBusy:
		done := residency.BusyAnswered{Model: e.Model, Number: e.Number}
		if fails(2) {
			done.LastUse = s.now.Add(-time.Duration(rng.IntN(10)) * time.Second)
		}
		return s.step(done)
	}
	return fmt.Errorf("nobody knows how to end %T", e)
}

func (s *shell) version(c residency.Candidate) *residency.Version {
	return s.machine.Model(c.Model).Versions[c.Version.Number]
}

// somewhere opens up to so many replicas, on different devices. Some of those may be lost: nobody tells the engine.
func (s *shell) somewhere(rng *rand.Rand, n int) (all []residency.Replica) {
	for _, i := range rng.Perm(len(s.devices))[:min(n, len(s.devices))] {
		if d := s.devices[i]; !s.lost[d.Name] || rng.IntN(4) == 0 {
			all = append(all, s.replica(d.Name))
		}
	}
	return all
}

// freeFor returns the devices that work and do not have a version.
func (s *shell) freeFor(c residency.Candidate) (free []string) {
	v := s.version(c)
	for _, d := range s.devices {
		on := v != nil && v.Resident != nil &&
			slices.ContainsFunc(v.Resident.Replicas, func(r residency.Replica) bool { return r.Device == d })
		if !s.lost[d.Name] && !on {
			free = append(free, d.Name)
		}
	}
	return free
}

// lose loses a device, and restore has it back as another incarnation.
func (s *shell) lose(device string, by *residency.Candidate) error {
	i := slices.IndexFunc(s.devices, func(d placement.DeviceID) bool { return d.Name == device })
	s.lost[device] = true
	return s.step(residency.DeviceLost{Device: s.devices[i], Cause: errors.New("fell off the bus"), By: by})
}

func (s *shell) restore(device string) error {
	i := slices.IndexFunc(s.devices, func(d placement.DeviceID) bool { return d.Name == device })
	s.devices[i].Incarnation++
	delete(s.lost, device)
	return s.step(residency.DeviceBack{Device: s.devices[i]})
}

func someError(rng *rand.Rand, e residency.Load) error {
	switch c := e.Of; rng.IntN(4) {
	case 0:
		return &catalog.MemoryError{Model: c.Model, Version: c.Version.Number, Need: 1 + rng.Int64N(10)}
	case 1:
		return &catalog.PlacementError{Model: c.Model, Version: c.Version.Number, Need: 1}
	default:
		return errors.New("the file is cut short")
	}
}

// wake has time pass until the next moment that the machine asked for, and the models woken that asked for it.
func (s *shell) wake() error {
	next, ok := s.nextWake()
	if !ok {
		return nil
	}
	if next.After(s.now) {
		s.now = next
	}
	for _, name := range s.due() {
		if err := s.step(residency.Tick{Model: name}); err != nil {
			return err
		}
	}
	return nil
}

// nextWake returns the next moment that the machine asked for, if there is one.
func (s *shell) nextWake() (next time.Time, ok bool) {
	for _, all := range s.wakes {
		for _, at := range all {
			if !ok || at.Before(next) {
				next, ok = at, true
			}
		}
	}
	return next, ok
}

// due returns the models that are to be woken by now, and forgets that.
func (s *shell) due() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(s.wakes)) {
		before := len(s.wakes[name])
		s.wakes[name] = slices.DeleteFunc(s.wakes[name], func(at time.Time) bool { return !at.After(s.now) })
		if len(s.wakes[name]) < before {
			names = append(names, name)
		}
	}
	return names
}

// listing has the versions of a model as a repository would have them, those with a fault included.
func listing(name string, manifest modelrepo.Manifest, versions ...modelrepo.Version) residency.ListedModel {
	m := &modelrepo.Model{Name: name, Dir: "/models/" + name, Manifest: manifest, Versions: versions}
	for _, v := range versions {
		if p := manifest.Versions.Policy; v.Err == nil && (p.All || slices.Contains(p.Specific, v.Number)) {
			m.Selected = append(m.Selected, v)
		}
	}
	if n := manifest.Versions.Policy.Latest; n > 0 {
		for _, v := range slices.Backward(versions) {
			if v.Err == nil && len(m.Selected) < n {
				m.Selected = slices.Insert(m.Selected, 0, v)
			}
		}
	}
	return residency.ListedModel{Model: m}
}

// pipeline is one that asks versions, such as "m/1".
func pipeline(steps ...string) *modelrepo.Pipeline {
	p := &modelrepo.Pipeline{}
	for _, name := range steps {
		s := modelrepo.Step{}
		s.Model, s.Version = split(name)
		p.Steps = append(p.Steps, s)
	}
	return p
}

// file is a version directory.
func file(model string, number int64, fingerprint string) modelrepo.Version {
	dir := fmt.Sprintf("/models/%s/%d", model, number)
	return modelrepo.Version{Number: number, Dir: dir, Path: dir + "/model.onnx", Fingerprint: fingerprint}
}
