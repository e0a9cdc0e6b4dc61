// Package residency decides which versions are loaded, on which devices, and what happens next. It is a pure state
// machine: Machine.Step takes the time and an Event and returns the Effects to carry out; it has no goroutine, no
// clock, no lock and no file. The package host is its shell.
//
// # A version
//
//	          listed                loaded                 files changed
//	absent ─────────► loading ─────────────────► ready ◄──────────────► replacing
//	   ▲                │  ▲                      │ │       loaded, or
//	   │         failed │  │ retry, or room      │ │       failed
//	   │                ▼  │                      │ │ the last replica's device is lost
//	   │              failed ◄────────────────────┼─┘ (loading, if the version is still wanted)
//	   │                │            not wanted   ▼
//	   └────────────────┴───────────────────── draining
//
// A ready version has one replica or several, each on one incarnation of one device. A replica that leaves (its version
// was replaced, it moved to a better device, the load asks for fewer, its device was lost) is retiring: it answers the
// requests that it accepted and is closed.
//
// # Convergence
//
// Events only note the wanted and the actual state. After each event the machine converges the models that it touched:
// if no effect of a model is running, it compares the model's actual state with the wanted one and starts the next
// step. The steps of one model follow each other in this order: changed settings, unloading, loading, upgrades to
// better devices, fewer replicas, more replicas. So neither the order in which wishes come matters, nor which step was
// interrupted. Models do not wait for each other. What a model's pipelines ask of others is wanted there (steps.go).
//
// # Invariants
//
// The tests check them after each event of random histories: at most one resident version per number; no replica in two
// places; no replica of a version on a lost device; an effect that was started is counted until its event comes;
// whatever leaves a version is retired exactly once; a model without a running effect is as wanted, waits for a time
// that was announced by WakeAt, or waits for room or for a caller to change something.
package residency

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/decisions"
	"github.com/weftserve/weft/runtime/fleet/placement"
)

// Machine holds the state of all models. It is not safe for concurrent use.
type Machine struct {
	config Config
	models map[string]*Model
	lost   map[placement.DeviceID]error
	back   map[string]int // incarnations of devices that came back, by name
	// retiring are the replicas that left their versions and are not closed yet.
	retiring map[ReplicaID]placement.DeviceID
	asked    map[step]int      // how many models have pipelines that ask it
	reported map[string]string // the faults in the latest listing, by path
	short    map[string]bool   // models with a version that may have failed for lack of memory
	loads    int64             // counts residents
	takenOut uint64            // counts versions that were taken out because they crash
	closing  bool

	// The results of the present step.
	now     time.Time
	effects []Effect
	touched map[string]bool // models to publish
	visit   map[string]bool // models to converge
}

// Config holds the settings of a Machine.
type Config struct {
	// AsksBusy: episodes are known about, so that a version is asked for them before it goes.
	AsksBusy bool
	// TryOnce keeps versions that failed from being tried again by themselves.
	TryOnce bool
	// Seed is the seed of the random spread of retries.
	Seed uint64

	rng *rand.Rand
}

// New returns a machine without models.
func New(c Config) *Machine {
	c.rng = rand.New(rand.NewPCG(c.Seed, c.Seed))
	return &Machine{
		config: c, models: map[string]*Model{}, lost: map[placement.DeviceID]error{}, back: map[string]int{},
		retiring: map[ReplicaID]placement.DeviceID{}, asked: map[step]int{},
		short: map[string]bool{}, touched: map[string]bool{}, visit: map[string]bool{},
	}
}

// Model returns the named model, or nil. The caller may only read it, until the next Step.
func (m *Machine) Model(name string) *Model { return m.models[name] }

// Models returns all models, for reading until the next Step.
func (m *Machine) Models() map[string]*Model { return m.models }

// Lost returns the devices that failed, and why.
func (m *Machine) Lost() map[placement.DeviceID]error { return m.lost }

// Retiring returns the replicas that left their versions and are not closed yet, ascending.
func (m *Machine) Retiring() []ReplicaID { return slices.Sorted(maps.Keys(m.retiring)) }

// Step takes in an event and returns the effects to carry out, in this order. Publish, if any, is the first. It panics
// on a type of event that this package does not declare, which is a mistake in the caller's code.
func (m *Machine) Step(now time.Time, e Event) []Effect {
	m.now, m.effects = now, nil
	m.apply(e)
	m.ask(m.visit)
	m.resolve()
	for len(m.visit) > 0 {
		for _, name := range slices.Sorted(maps.Keys(m.visit)) {
			m.converge(m.models[name])
		}
		visited := m.visit
		m.visit = map[string]bool{}
		m.ask(visited)
	}
	m.resolve()
	names := slices.Sorted(maps.Keys(m.touched))
	clear(m.touched)
	for _, name := range names {
		if model := m.models[name]; model.Empty() && model.running == 0 {
			delete(m.models, name) // the only place that forgets a model
		}
	}
	if _, lost := e.(DeviceLost); lost || len(names) > 0 {
		return append([]Effect{Publish{names}}, m.effects...)
	}
	return m.effects
}

// resolve derives labels, traffic and the versions that are there for pipelines only, of the models that have changed.
func (m *Machine) resolve() {
	for _, name := range slices.Sorted(maps.Keys(m.touched)) {
		model := m.models[name]
		model.resolveLabels()
		model.resolveStepOnly()
		for _, line := range model.Traffic.resolve(model) {
			m.log(line)
		}
	}
}

// apply notes an event. It panics as Step says.
func (m *Machine) apply(e Event) {
	switch e := e.(type) {
	case Listed:
		m.listed(e)
	case Overridden:
		m.overridden(e)
	case Deciding:
		if model := m.models[e.Model]; model != nil {
			model.Traffic.deciding = true
		}
	case Decided:
		m.decided(e)
	case GaveUp:
		m.gaveUp(e)
	case Withdrawn:
		m.withdrawn(e)
	case Loaded:
		m.loaded(e)
	case Reconfigured:
		m.reconfigured(e)
	case Drained:
		m.drained(e)
	case Discarded:
		m.retire(e.Replica)
	case Retired:
		delete(m.retiring, e.Replica)
	case Upgraded:
		m.upgraded(e)
	case Grown:
		m.grown(e)
	case Shrunk:
		m.shrunk(e)
	case BusyAnswered:
		m.busyAnswered(e)
	case DeviceLost:
		m.deviceLost(e)
	case DeviceBack:
		m.deviceBack(e)
	case RoomSeen:
		m.roomSeen(e)
	case Fared:
		m.fared(e)
	case Judged:
		m.judged(e)
	case Crashed:
		m.crashed(e)
	case MemoryFreed:
		m.memoryFreed(e.Free)
	case Tick:
		m.ticked(e.Model)
	case Closing:
		m.closing = true
	case Closed:
		m.drainAll()
	default:
		panic(fmt.Sprintf("residency: no such event: %T", e))
	}
}

// touch marks a version for publication, and its model for convergence.
func (m *Machine) touch(model *Model, v *Version) {
	if v != nil {
		v.touch()
	}
	m.touched[model.Name], m.visit[model.Name] = true, true
}

func (m *Machine) emit(e Effect) { m.effects = append(m.effects, e) }

func (m *Machine) log(l Log) { m.emit(l) }

// start begins an effect that ends with an event.
func (m *Machine) start(model *Model, e Effect) {
	model.running++
	m.emit(e)
}

// end notes that an effect of a model ended, and returns the version that it was about; nil if that is gone.
func (m *Machine) end(name string, number int64) (*Model, *Version) {
	model := m.models[name]
	model.running--
	m.visit[name] = true
	return model, model.Versions[number]
}

// find returns the version that an event is about to which no effect led; nil if that is gone.
func (m *Machine) find(name string, number, resident int64) (*Model, *Version) {
	model := m.models[name]
	if model == nil || model.Versions[number] == nil {
		return nil, nil
	}
	v := model.Versions[number]
	if v.Resident == nil || v.Resident.ID != resident {
		return nil, nil
	}
	return model, v
}

// accept returns those of the replicas whose devices still work. The others are retired.
func (m *Machine) accept(all ...Replica) (working []Replica) {
	for _, r := range all {
		if m.lost[r.Device] != nil {
			m.retire(r)
			m.emit(Abandon{r.ID})
			continue
		}
		working = append(working, r)
	}
	return working
}

// retire closes replicas that belong to no version any more.
func (m *Machine) retire(all ...Replica) {
	for _, r := range all {
		m.retiring[r.ID] = r.Device
		m.emit(Retire{r.ID})
	}
}

// decided takes over the decisions about a model.
func (m *Machine) decided(e Decided) {
	model := m.models[e.Model]
	if model == nil {
		return // it is gone, and will recall the decision should it come back
	}
	model.Traffic.deciding = false
	if e.After != nil {
		model.Kept = true
		if model.Decided.Traffic != e.After.Traffic {
			model.Traffic.Public = e.After.Traffic
		}
		model.Decided = *e.After
	}
	m.touch(model, nil)
}

// judged notes how a version is served from now on. The verdict counts also if its devices were lost since.
func (m *Machine) judged(e Judged) {
	model := m.models[e.Model]
	if model == nil || model.Versions[e.Number] == nil || model.Versions[e.Number].latest != e.Resident {
		return
	}
	v := model.Versions[e.Number]
	m.touch(model, v)
	if e.Demoted == nil {
		return
	}
	of := v.Of.Manifest
	if v.Resident != nil {
		of = v.Resident.Settings
	}
	var news bool
	if model.Decided, news = model.Decided.Unbatch(decisions.Unbatched{
		Version: e.Number, Files: e.Files, Batching: batchesOf(of), Why: *e.Demoted, At: m.now.UTC(),
	}); news {
		model.Kept = true
		m.emit(Keep{model.Name, model.Decided})
	}
}

// drainAll drains every version, whatever it waits for.
func (m *Machine) drainAll() {
	for _, name := range slices.Sorted(maps.Keys(m.models)) {
		model := m.models[name]
		for _, n := range slices.Sorted(maps.Keys(model.Versions)) {
			m.drain(model, model.Versions[n])
		}
	}
	for _, id := range m.Retiring() {
		m.emit(Retire{id})
	}
}
