package rollout

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
)

// look judges every running rollout, moves those that follow the gate, and forgets versions that are gone.
func (m *Manager) look() {
	m.changing.Lock()
	defer m.changing.Unlock()
	for _, model := range slices.Sorted(maps.Keys(m.runs)) {
		if r := m.runs[model]; r.State == Running {
			m.follow(r)
		}
	}
	snapshot := m.traffic.Snapshot()
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.windows, func(v version, _ *window) bool {
		known := snapshot.Model(v.model)
		return known == nil || known.Version(v.number) == nil
	})
}

// follow does what the gate says. What the traffic refuses is tried again at the next look.
func (m *Manager) follow(r *run) {
	m.judge(r)
	if m.endIfBroken(r) || !r.Automatic {
		return
	}
	var err error
	switch {
	case r.Report.Verdict == Rollback:
		err = m.end(r, RolledBack, "the gate said ROLLBACK: "+reason(r.Report))
	case r.Report.Verdict == Promote && !r.Report.At.Before(r.StageSince.Add(r.StageDuration)):
		err = m.advance(r, "the gate said PROMOTE")
	}
	if err != nil && err.Error() != r.refusal {
		r.refusal = err.Error()
		m.logger.Warn("a rollout could not move and will try again", "model", r.Model, "error", err)
	}
}

// judge asks the gate.
func (m *Manager) judge(r *run) {
	agreed, shadowed := m.agreement(r.Model, r.CandidateVersion)
	var oldest time.Time
	running := false
	if m.oldest != nil && len(r.strata) > 0 {
		oldest, running = m.oldest(r.Model, r.strata[0].since)
	}
	m.mu.Lock()
	r.settle(oldest, running, m.now())
	evidence := r.evidence(agreed, shadowed)
	m.mu.Unlock()
	report := Judge(r.Gate, evidence)
	report.At = m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	r.Report = report
}

// reason returns the reasons of the checks that decided.
func reason(r Report) string {
	s := ""
	for _, c := range r.Checks {
		if c.Verdict == r.Verdict {
			if s != "" {
				s += "; "
			}
			s += c.Reason
		}
	}
	return s
}

// advance enters the next stage, or promotes.
func (m *Manager) advance(r *run, why string) error {
	if r.Stage == len(r.Stages)-1 {
		return m.end(r, Promoted, why)
	}
	next := r.Stage + 1
	if err := m.set(r, r.traffic(r.Stages[next], false, m.present(r))); err != nil {
		return err
	}
	now := m.now()
	m.mu.Lock()
	r.enter(next, now)
	m.countLocked()
	m.mu.Unlock()
	m.step(r, now, r.Stages[next], why)
	return nil
}

// end gives all traffic to the candidate if the state is Promoted, else to the baseline, and ends the rollout.
func (m *Manager) end(r *run, state State, why string) error {
	percent := 0.0
	if state == Promoted {
		percent = 100
	}
	if err := m.set(r, r.traffic(percent, true, m.present(r))); err != nil {
		return err
	}
	m.finish(r, state, percent, why)
	return nil
}

// endIfBroken ends a rollout that cannot go on, and reports whether it did. If only the candidate is gone, the baseline gets everything.
func (m *Manager) endIfBroken(r *run) bool {
	snapshot := m.traffic.Snapshot()
	why := r.broken(snapshot)
	if why == "" {
		return false
	}
	percent := r.Stages[r.Stage]
	known := snapshot.Model(r.Model)
	if known != nil && known.Traffic != nil && known.Traffic.Revision == r.revision && !gone(known, r.BaselineVersion) {
		if err := m.set(r, r.traffic(0, true, known.Traffic)); err != nil {
			why += fmt.Sprintf("; the baseline could not be given all traffic: %v", err)
		} else {
			percent = 0
		}
	} else {
		why += "; the traffic was left as it is"
	}
	m.finish(r, Aborted, percent, why)
	return true
}

func (m *Manager) finish(r *run, state State, percent float64, why string) {
	now := m.now()
	m.mu.Lock()
	r.State = state
	m.countLocked()
	m.mu.Unlock()
	m.step(r, now, percent, why)
}

// present returns the model's traffic now, nil if there is none.
func (m *Manager) present(r *run) *catalog.Traffic {
	if known := m.traffic.Snapshot().Model(r.Model); known != nil {
		return known.Traffic
	}
	return nil
}

// set changes the traffic, provided that it still is the rollout's own.
func (m *Manager) set(r *run, t *catalog.Traffic) error {
	set, err := m.traffic.SetTraffic(r.Model, t, r.revision)
	if err != nil {
		return fmt.Errorf("model %q: the rollout could not set the traffic: %w", r.Model, err)
	}
	r.revision = set.Revision
	return nil
}

// step records a change that was made, with the evidence there is, and logs it.
func (m *Manager) step(r *run, now time.Time, percent float64, why string) {
	m.mu.Lock()
	r.Steps = append(r.Steps, Step{At: now, Percent: percent, State: r.State, Reason: why, Report: r.Report})
	m.mu.Unlock()
	attrs := []slog.Attr{
		slog.String("model", r.Model), slog.Int64("baseline", r.BaselineVersion), slog.Int64("candidate", r.CandidateVersion),
		slog.String("state", r.State.String()), slog.Float64("percent", percent), slog.String("reason", why),
		slog.String("verdict", r.Report.Verdict.String()),
	}
	for _, c := range r.Report.Checks {
		attrs = append(attrs, slog.String(c.Name, c.Verdict.String()+": "+c.Reason))
	}
	m.logger.LogAttrs(context.Background(), slog.LevelInfo, "rollout", attrs...)
}
