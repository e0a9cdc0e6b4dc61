package residency

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/modelrepo"
)

// shortage is why a version has no further replica although one is wanted.
type shortage struct {
	why   string // "": nothing is in the way
	noted string // the record in the log about it
	until time.Time
}

// grow begins to give versions a further replica.
func (m *Machine) grow(model *Model, serving []Candidate) (began bool) {
	for _, c := range serving {
		r := model.Versions[c.Version.Number].Resident
		if len(r.Replicas) < r.wants() && r.short.why == "" {
			m.start(model, Grow{c, r.ID})
			began = true
		}
	}
	return began
}

// grown takes over a further replica, or notes why there is none.
func (m *Machine) grown(e Grown) {
	model, v := m.end(e.Of.Model, e.Of.Version.Number)
	var more []Replica
	if e.Replica != nil {
		more = m.accept(*e.Replica)
	}
	if v.Resident == nil { // the devices that it was on are lost
		m.retire(more...)
		return
	}
	r := v.Resident
	r.Replicas = append(slices.Clip(r.Replicas), more...)
	if e.Err != nil {
		if r.short.noted != e.Err.Error() {
			m.log(Log{
				slog.LevelWarn, "no further replica",
				[]any{"event", "replica_unavailable", "model", model.Name, "version", v.Number, "cause", e.Err},
			})
		}
		why := fmt.Sprintf("%d of %d replicas: %v", len(r.Replicas), r.wants(), e.Err)
		r.short = shortage{why: why, noted: e.Err.Error(), until: m.now.Add(scarceFor)}
		r.auto = max(1, len(r.Replicas))
	}
	m.touch(model, v)
}

// shrink begins to take replicas from versions that have too many.
func (m *Machine) shrink(model *Model, serving []Candidate) (began bool) {
	for _, c := range serving {
		r := model.Versions[c.Version.Number].Resident
		if len(r.Replicas) > r.wants() {
			m.start(model, Shrink{Model: model.Name, Number: c.Version.Number, Replicas: slices.Clone(r.Replicas)})
			began = true
		}
	}
	return began
}

// shrunk takes a replica away.
func (m *Machine) shrunk(e Shrunk) {
	model, v := m.end(e.Model, e.Number)
	r := v.Resident
	if r == nil || r.has(e.Replica) < 0 || len(r.Replicas) <= r.wants() { // a device that it was on is lost
		return
	}
	i := r.has(e.Replica)
	out := r.Replicas[i]
	r.Replicas = slices.Delete(slices.Clone(r.Replicas), i, i+1)
	m.log(Log{
		slog.LevelInfo, "replica removed",
		[]any{"event", "replica_removed", "model", e.Model, "version", e.Number, "device", out.Device.Name},
	})
	m.retire(out)
	m.touch(model, v)
}

// fared takes in how a version fared. How busy a further device is matters only where the load asks for it: a number in
// a manifest is taken as it stands.
func (m *Machine) fared(e Fared) {
	model, v := m.find(e.Model, e.Number, e.Resident)
	if v == nil || !v.ready() {
		return
	}
	r := v.Resident
	if e.Fare.Replicas == 0 || m.now.Before(r.short.until) {
		return
	}
	change := 0
	if r.Settings.Replicas == modelrepo.AutoReplicas {
		change = r.scaler.Tick(e.Fare)
		r.auto = max(1, r.auto+change)
		if r.short.why != "" && change == 0 && !r.scaler.Hot() {
			r.short.why = ""
			m.touch(model, v)
		}
	}
	if change != 0 {
		m.log(Log{slog.LevelInfo, "load asks for another number of replicas", []any{
			"event", "replicas_rescaled", "model", e.Model, "version", e.Number, "from", e.Fare.Replicas,
			"to", r.auto, "refused", e.Fare.Refused, "waiting", e.Fare.Waiting.Round(time.Millisecond),
			"used", fmt.Sprintf("%.2f", e.Fare.Used),
		}})
	}
	if change != 0 || r.short.why != "" && e.Fare.Replicas < r.wants() && e.Further {
		r.short.why = ""
		m.visit[e.Model] = true
	}
}

// Watched returns whether the load of a version, or room for it, is to be watched for further replicas.
func (r *Resident) Watched() bool {
	return r.Settings.Replicas == modelrepo.AutoReplicas || r.short.why != ""
}

// Further returns the devices that could get a further replica: those of the rank that the replicas have, since a last
// resort gets no further ones.
func (r *Resident) Further() (names []string) {
	if len(r.Replicas) == 0 { // it drains, and its devices were lost
		return nil
	}
	for _, s := range r.sites {
		if s.Rank == r.rank(r.Replicas[0].Device.Name) && !r.on(s.Device) {
			names = append(names, s.Device)
		}
	}
	return names
}
