package rollout

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
)

// look judges every running rollout, and moves the ones that are automatic. Run calls it once a second.
func (m *Manager) look() {
	m.changing.Lock()
	defer m.changing.Unlock()
	for _, model := range slices.Sorted(maps.Keys(m.runs)) {
		if r := m.runs[model]; r.State == Running {
			m.follow(r)
		}
	}
}

// follow carries out the promotion gate's verdict. A change that the traffic refuses is tried again at the next look.
// The caller holds changing. A rollback does not wait for the stage's duration; a promotion does.
func (m *Manager) follow(r *run) {
	m.judge(r)
	if m.endIfBroken(r) {
		return
	}
	var err error
	switch now := m.config.Now(); {
	case !r.Automatic:
		err = m.keep(r)
	// The time is over before the verdict is looked at: a Promote that comes now is too late.
	case !now.Before(r.Since.Add(r.MaxDuration)):
		err = m.end(r, Expired, byGate, fmt.Sprintf("there was no verdict within %v: %s", r.MaxDuration, reason(r.Report)))
	case r.Report.Verdict == Rollback:
		err = m.end(r, RolledBack, byGate, "the gate said ROLLBACK: "+reason(r.Report))
	case r.Report.Verdict == Promote && !r.Report.At.Before(r.StageSince.Add(r.StageDuration)):
		err = m.advance(r, byGate, "the gate said PROMOTE")
	default:
		err = m.keep(r)
	}
	m.complain(r, err)
}

// complain logs why a step failed, once for each error: steps are tried again each second.
func (m *Manager) complain(r *run, err error) {
	if err != nil && err.Error() != r.refusal {
		r.refusal = err.Error()
		m.config.Logger.Warn("rollout step failed", "event", "rollout_step_failed", "model", r.Model,
			"effect", "tried again at each look", "cause", err)
	}
}

// judge asks the promotion gate, and notes its report. The caller holds changing.
func (m *Manager) judge(r *run) {
	m.mu.Lock()
	m.listenLocked() // first: an episode that begins meanwhile must not seem to be over
	now := m.config.Now()
	m.mu.Unlock()
	unfinished := map[uint64]bool{}
	for _, episode := range m.config.Unfinished(r.Model) {
		unfinished[m.idOf(episode)] = true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r.settle(unfinished, now)
	report := r.judged(m.config.Now())
	r.History.add(&report)
	if report.Verdict != r.Report.Verdict {
		r.History.mark(&report, report.At, r.Stages[r.Stage], false)
	}
	r.Report = report
}

// keptEvery is how often evidence is kept. What came later is lost with the process.
const keptEvery = 10 * time.Second

// keep keeps the evidence, if something was heard since it was.
func (m *Manager) keep(r *run) error {
	now := m.config.Now()
	if now.Sub(r.keptAt) < keptEvery || !r.fresh.Swap(false) {
		return nil
	}
	r.keptAt = now
	after := m.copyOf(r)
	err := m.decide(r, &after, nil)
	if err != nil {
		r.fresh.Store(true)
		err = fmt.Errorf("the evidence of the rollout could not be kept: %w", err)
	}
	return err
}

// reason returns the reasons of the checks that decided.
func reason(r Report) string {
	var all []string
	for _, c := range r.Checks {
		if c.Verdict == r.Verdict {
			all = append(all, c.Reason)
		}
	}
	return strings.Join(all, "; ")
}

// advance enters the next stage, or promotes at the end of the last one. The caller holds changing.
func (m *Manager) advance(r *run, by, why string) error {
	if r.Stage == len(r.Stages)-1 {
		return m.end(r, Promoted, by, why)
	}
	return m.step(r, Running, r.Stage+1, r.Stages[r.Stage+1], by, why, true)
}

// end gives all traffic to the candidate if the state is Promoted, else to the baseline, and ends the rollout.
func (m *Manager) end(r *run, state State, by, why string) error {
	percent := 0.0
	if state == Promoted {
		percent = 100
	}
	return m.step(r, state, r.Stage, percent, by, why, true)
}

// step changes the traffic, if that is asked for, and the kept record of the rollout with it. The rollout is as it was
// if it cannot, but for one that ends and leaves the traffic. Episodes that begin while the traffic changes count for
// nothing, because nobody knows by which split they were drawn. The caller holds changing, and not mu.
func (m *Manager) step(r *run, state State, stage int, percent float64, by, why string, divide bool) error {
	after, now := m.copyOf(r), m.config.Now()
	after.State = state
	if state == Running {
		after.Stage, after.StageSince = stage, now
	}
	after.note(now, percent, by, why)
	var t *catalog.Traffic
	if divide {
		t = r.traffic(percent, state != Running, m.config.Traffic.Snapshot().Model(r.Model))
	}
	m.mu.Lock()
	r.pause(now)
	m.mu.Unlock()
	err := m.decide(r, &after, t)
	m.mu.Lock()
	if err != nil && divide {
		r.resume()
		m.mu.Unlock()
		return fmt.Errorf("model %q: the rollout could not set the traffic: %w", r.Model, err)
	}
	if err != nil {
		m.config.Logger.Warn("rollout end not kept", "event", "rollout_end_not_kept", "model", r.Model, "cause", err)
	}
	if r.State = state; state == Running {
		r.enter(stage, m.config.Now())
	}
	r.Steps, r.History = after.Steps, after.History
	m.followLocked()
	m.mu.Unlock()
	m.tell(r)
	return nil
}

// endIfBroken ends a rollout that cannot go on, and reports whether it did. If only the candidate is gone, the baseline
// gets everything.
func (m *Manager) endIfBroken(r *run) bool {
	snapshot := m.config.Traffic.Snapshot()
	why := r.broken(snapshot)
	if why == "" {
		return false
	}
	// Only if the traffic is still the rollout's own may it be given back to the baseline.
	known := snapshot.Model(r.Model)
	if known != nil && known.Traffic != nil && known.Traffic.Revision == r.revision && !gone(known, r.BaselineVersion) {
		m.complain(r, m.end(r, Aborted, byServer, why))
		return r.State != Running
	}
	why += "; the traffic was left as it is: `weft traffic " + r.Model + "` shows it, and divides it otherwise"
	m.complain(r, m.step(r, Aborted, r.Stage, r.Stages[r.Stage], byServer, why, false))
	return true
}

// tell logs the latest step, with its evidence.
func (m *Manager) tell(r *run) {
	step := r.Steps[len(r.Steps)-1]
	attrs := []slog.Attr{
		slog.String("event", "rollout_moved"), slog.String("model", r.Model), slog.Int64("baseline", r.BaselineVersion),
		slog.Int64("candidate", r.CandidateVersion),
		slog.String("state", step.State.String()), slog.Float64("percent", step.Percent), slog.String("by", step.By),
		slog.String("reason", step.Reason),
		slog.String("verdict", step.Report.Verdict.String()),
	}
	for _, c := range step.Report.Checks {
		attrs = append(attrs, slog.String(c.Name, c.Verdict.String()+": "+c.Reason))
	}
	m.config.Logger.LogAttrs(context.Background(), slog.LevelInfo, "rollout moved", attrs...)
}
