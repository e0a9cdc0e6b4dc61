package residency

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
)

// failure is the outcome of the latest attempts to load a version.
type failure struct {
	of       Candidate
	attempts int
	cause    error
	due      bool      // it is time for another attempt
	again    time.Time // when that is by itself; zero: never
}

// goesOn begins the cause of a version that serves.
const goesOn = "what lies under its number now cannot be loaded, so that it goes on as it was: "

const (
	firstRetry = time.Second
	lastRetry  = 5 * time.Minute
	jitter     = 0.2
)

// backoff is how long to wait after so many failed attempts in a row: twice as long each time, spread so that versions
// that failed together are not tried again together.
func (m *Machine) backoff(attempts int) time.Duration {
	wait := lastRetry
	if n := attempts - 1; n < 9 { // 2⁹ s are more than lastRetry
		wait = min(firstRetry<<n, lastRetry)
	}
	return time.Duration(float64(wait) * (1 + jitter*(2*m.config.rng.Float64()-1)))
}

// failed notes that a version could not be loaded, and when it is tried again. A version that serves under its number
// goes on.
func (m *Machine) failed(model *Model, v *Version, e Loaded) {
	f := &failure{of: e.Of, attempts: 1, cause: e.Err}
	if v.failure != nil && v.failure.of.alike(&e.Of) {
		f.attempts = v.failure.attempts + 1
	}
	f.due = e.Interrupted && !m.closing // it may be wanted again by now
	v.failure = f
	hidden := e.Of.Hide(e.Err)
	text := hidden.Text
	attrs := []any{"model", model.Name, "version", v.Number, "path", e.Of.Path(), "cause", e.Err}
	if !m.config.TryOnce && !m.closing {
		wait := m.backoff(f.attempts)
		f.again = m.now.Add(wait)
		m.emit(WakeAt{model.Name, f.again})
		if f.takenOut() {
			text = fmt.Sprintf("%s; it is loaded again after %v", text, wait.Round(100*time.Millisecond))
		} else if f.attempts > 1 {
			text = fmt.Sprintf("%s (attempt %d, next in %v)", text, f.attempts, wait.Round(100*time.Millisecond))
		}
		attrs = append(attrs, "attempt", f.attempts, "next_in", wait.Round(time.Millisecond))
	}
	v.State = Failed
	if v.Resident != nil {
		v.State = Ready
		text = goesOn + text
	}
	v.Cause = &catalog.Hidden{Err: hidden, Text: text}
	switch {
	case f.takenOut():
		m.log(Log{slog.LevelError, "version taken out", append([]any{"event", "version_taken_out"}, attrs...)})
	case e.Interrupted:
		m.log(Log{slog.LevelInfo, "version cannot be loaded", append([]any{"event", "version_failed"}, attrs...)})
	default:
		m.log(Log{slog.LevelError, "version cannot be loaded", append([]any{"event", "version_failed"}, attrs...)})
	}
	m.touch(model, v)
	if f.short() {
		m.short[model.Name] = true
	}
	if f.overBudget() {
		f.due = f.fits(e.Free) // memory that was freed before it failed woke nobody
	} else if !f.unplaced() {
		m.memoryFreed(e.Free) // the memory that it held until it failed
	}
}

// ticked makes failed versions of a model due whose time has come.
func (m *Machine) ticked(name string) {
	model := m.models[name]
	if model == nil {
		return
	}
	for _, v := range model.Versions {
		if f := v.failure; f != nil && !f.again.IsZero() && !m.now.Before(f.again) {
			f.due = true
		}
	}
	m.visit[name] = true
}

// hasten makes all versions due that failed.
func (m *Model) hasten() {
	for _, v := range m.Versions {
		if v.failure != nil {
			v.failure.due = true
		}
	}
}

// giveUp keeps a version that failed from being tried again by itself.
func (v *Version) giveUp() {
	if v != nil && v.failure != nil && !v.failure.again.IsZero() {
		v.failure.again = time.Time{}
		v.touch()
	}
}

// overBudget reports whether the failure is for lack of room in the memory budget, and unplaced whether for lack of
// room on devices.
func (f *failure) overBudget() bool {
	_, is := errors.AsType[*catalog.MemoryError](f.cause)
	return is
}

func (f *failure) unplaced() bool {
	_, is := errors.AsType[*catalog.PlacementError](f.cause)
	return is && !f.again.IsZero()
}

// short reports whether the failure is for lack of memory, and is tried again by itself.
func (f *failure) short() bool { return f.overBudget() && !f.again.IsZero() || f.unplaced() }

// fits reports whether the failure is tried again by itself and would not be for lack of memory with so many free
// bytes.
func (f *failure) fits(free int64) bool {
	e, is := errors.AsType[*catalog.MemoryError](f.cause)
	return is && !f.again.IsZero() && e.Need <= free
}

// memoryFreed makes versions due that failed for lack of memory and for which there is enough now, or may be: how much
// a device has is asked when a version is placed.
func (m *Machine) memoryFreed(free int64) {
	for _, name := range slices.Sorted(maps.Keys(m.short)) {
		still := false
		if model := m.models[name]; model != nil {
			for _, v := range model.Versions {
				if v.failure == nil || !v.failure.short() {
					continue
				}
				still = true
				if v.failure.fits(free) || v.failure.unplaced() {
					v.failure.due = true
					m.visit[name] = true
				}
			}
		}
		if !still {
			delete(m.short, name)
		}
	}
}
