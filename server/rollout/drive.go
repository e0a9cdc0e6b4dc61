package rollout

import (
	"fmt"

	"github.com/weftserve/weft/runtime/catalog"
)

// Start begins a rollout with its first stage; by names the caller. Errors: *PlanError, *UnknownError, *NotReadyError,
// ErrRunning, or that of Traffic.Decide.
func (m *Manager) Start(p Plan, by string) (Rollout, error) {
	p = p.withDefaults()
	if err := p.Check(); err != nil {
		return Rollout{}, err
	}
	m.changing.Lock()
	defer m.changing.Unlock()
	if old := m.runs[p.Model]; old != nil && old.State == Running {
		return Rollout{}, fmt.Errorf("model %q: %w, of version %d: abort it first", p.Model, ErrRunning,
			old.CandidateVersion)
	}
	known := m.config.Traffic.Snapshot().Model(p.Model)
	if known == nil {
		return Rollout{}, &UnknownError{Model: p.Model}
	}
	for _, number := range []int64{p.BaselineVersion, p.CandidateVersion} {
		v := known.Version(number)
		if v == nil {
			return Rollout{}, &UnknownError{Model: p.Model, Version: number}
		}
		if v.State != catalog.Ready {
			return Rollout{}, &NotReadyError{p.Model, number, v.State, v.Cause}
		}
	}
	// It is known to nobody until its traffic was set: if that fails nothing has happened.
	r := newRun(Rollout{Plan: p, State: Running}, 0, Evidence{})
	if known.Traffic != nil {
		r.revision = known.Traffic.Revision
	}
	now := m.config.Now()
	r.Since = now
	r.enter(0, now)
	r.Report = r.judged(now)
	r.StageSince = now
	r.note(now, p.Stages[0], by, "started by hand")
	if err := m.decide(r, &r.Rollout, r.traffic(p.Stages[0], false, known)); err != nil {
		return Rollout{}, fmt.Errorf("model %q: the rollout was not started: %w", p.Model, err)
	}
	m.mu.Lock()
	m.runs[p.Model] = r
	r.stages[0].since = m.config.Now() // earlier episodes went where the traffic led then
	m.followLocked()
	m.mu.Unlock()
	m.tell(r)
	return m.copyOf(r), nil
}

// Advance goes to the next stage, or from the last one to the candidate's promotion, whatever the promotion gate says;
// by names the caller. If the rollout turns out to have ended the error is ErrEnded and the Rollout says why.
func (m *Manager) Advance(model, by string) (Rollout, error) {
	m.changing.Lock()
	defer m.changing.Unlock()
	r, err := m.running(model)
	if err != nil {
		return Rollout{}, err
	}
	m.judge(r)
	if m.endIfBroken(r) {
		return m.copyOf(r), fmt.Errorf("model %q: %w: %s", model, ErrEnded, r.Steps[len(r.Steps)-1].Reason)
	}
	err = m.advance(r, by, "asked for by hand")
	return m.copyOf(r), err
}

// Abort gives all traffic back to the baseline, unless somebody else has changed the traffic; by names the caller.
func (m *Manager) Abort(model, by string) (Rollout, error) {
	m.changing.Lock()
	defer m.changing.Unlock()
	r, err := m.running(model)
	if err != nil {
		return Rollout{}, err
	}
	m.judge(r)
	if !m.endIfBroken(r) {
		err = m.end(r, Aborted, by, "asked for by hand")
	}
	return m.copyOf(r), err
}

// running returns the model's running rollout. The caller holds changing.
func (m *Manager) running(model string) (*run, error) {
	r := m.runs[model]
	switch {
	case r == nil:
		return nil, fmt.Errorf("model %q: %w: start one first", model, ErrNone)
	case r.State != Running:
		why := "`weft traffic " + model + "` divides requests otherwise"
		if r.State == Aborted { // perhaps by the server, while nobody looked
			why = r.Steps[len(r.Steps)-1].Reason
		}
		return nil, fmt.Errorf("model %q: %w, %v: %s; `weft rollout start` begins another", model, ErrEnded, r.State, why)
	}
	return r, nil
}

// copyOf returns a copy that may be read without mu. The caller does not hold mu.
func (m *Manager) copyOf(r *run) Rollout {
	m.mu.Lock()
	defer m.mu.Unlock()
	return r.clone()
}

// followLocked makes the manager listen to what is told of the running rollouts' versions, and of no others: requests
// of models without a rollout then cost one look into a map that is read without a lock. The caller holds mu.
func (m *Manager) followLocked() {
	running := map[string]*Plan{}
	for model, r := range m.runs {
		if r.State == Running {
			running[model] = &r.Plan
		}
	}
	m.plans.Store(&running)
}
