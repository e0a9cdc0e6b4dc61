package residency

import (
	"errors"
	"slices"
	"time"
)

// crashMemory is how long a version is remembered as one that crashes: each time within it, it stays out for longer.
const crashMemory = time.Hour

// crashes counts how often a version was taken out because it crashes.
type crashes struct {
	times int
	at    time.Time // the latest
}

// crashed takes a version out, and has it loaded again after a while. The others on its devices are served meanwhile.
func (m *Machine) crashed(e Crashed) {
	model := m.models[e.Model]
	if model == nil || model.Versions[e.Number] == nil {
		return
	}
	v := model.Versions[e.Number]
	r := v.Resident
	if r == nil || r.ID != e.Resident || v.State == Draining || m.closing {
		return
	}
	for _, gone := range slices.Clone(r.Replicas) {
		m.retire(gone)
	}
	v.Resident = nil
	if v.State == Replacing {
		v.State = Loading // other files are being loaded: they may do better
		m.touch(model, v)
		return
	}
	if m.now.Sub(v.crashes.at) > crashMemory {
		v.crashes.times = 0
	}
	v.crashes.times++
	v.crashes.at = m.now
	v.failure = &failure{of: r.Of, attempts: v.crashes.times - 1}
	m.takenOut++
	m.failed(model, v, Loaded{Load: Load{Of: r.Of}, Err: &takenOutError{e.Cause}})
}

// TakenOut returns how often a version was taken out because it crashes.
func (m *Machine) TakenOut() uint64 { return m.takenOut }

// takenOutError is why a version that was loaded is out.
type takenOutError struct{ cause error }

func (e *takenOutError) Error() string { return "it was taken out: " + e.cause.Error() }

func (e *takenOutError) Unwrap() error { return e.cause }

// takenOut reports whether the failure is that of a version that was taken out.
func (f *failure) takenOut() bool {
	_, is := errors.AsType[*takenOutError](f.cause)
	return is
}

// TakenOut reports whether the version was taken out because it crashes, and when it is loaded again by itself; zero:
// never.
func (v *Version) TakenOut() (again time.Time, is bool) {
	if v.State != Failed || v.failure == nil || !v.failure.takenOut() {
		return time.Time{}, false
	}
	return v.failure.again, true
}
