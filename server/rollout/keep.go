package rollout

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
)

// The authors of the steps of a rollout that no person takes.
const (
	byGate   = "gate"
	byServer = "weft" // it was started again, or a condition of the rollout changed, such as its traffic
)

// Kept is the part of a model's latest rollout that outlives the process.
type Kept struct {
	Text     []byte // JSON of a keptRollout
	Revision uint64 // of the traffic that it set last
}

// keptRollout is how a rollout is written: with a duration that people can read, and without the promotion gate's
// latest report, which is that of the last step. docs/reference/state-directory.md says where it is.
type keptRollout struct {
	*Rollout
	StageDuration string `json:"stage_duration"`
	MaxDuration   string `json:"max_duration"`
	Evidence      any    `json:"evidence,omitempty"` // *Evidence
}

// recall goes on with rollouts of an earlier process, from the evidence that was kept. Episodes that were running are
// not part of it any more: whether they were lost is not known. The stage lasts as long as if it began now. It is
// called once, by New, before anything else can hold the locks.
func (m *Manager) recall(kept map[string]Kept) {
	now := m.config.Now()
	for model, k := range kept {
		r, anew, err := decode(model, k)
		if err != nil {
			m.config.Logger.Error("KEPT ROLLOUT UNREADABLE AND FORGOTTEN", "event", "rollout_unreadable", "model", model,
				"kept", "the traffic as it is", "cause", err)
			continue
		}
		m.runs[model] = r
		if r.State != Running {
			continue
		}
		why := "the server was started again, and goes on with the evidence that was kept"
		if anew {
			why = "the server was started again, and the evidence begins anew"
			r.History = History{} // of other evidence
		}
		r.StageSince = now
		r.pass(&r.Steps[len(r.Steps)-1].Report) // which may be all that was kept of it
		r.span(now)
		r.Report = r.judged(now)
		r.note(now, r.Stages[r.Stage], byServer, why)
	}
	m.followLocked()
}

// decode returns a rollout that was kept. If its evidence is missing, or written as other releases do, it begins anew.
func decode(model string, k Kept) (_ *run, anew bool, err error) {
	var text json.RawMessage
	kept := keptRollout{Rollout: &Rollout{}, Evidence: &text}
	if err := json.Unmarshal(k.Text, &kept); err != nil {
		return nil, false, err
	}
	var e Evidence
	// Evidence is of a release's own form. Half of it would be worse than none.
	if anew = json.Unmarshal(text, &e) != nil; anew {
		e = Evidence{}
	}
	if kept.Rollout.StageDuration, err = time.ParseDuration(kept.StageDuration); err != nil {
		return nil, false, err
	}
	if kept.Rollout.MaxDuration, err = time.ParseDuration(cmp.Or(kept.MaxDuration, "0")); err != nil {
		return nil, false, err
	}
	// A plan of another release is checked like one of a caller.
	kept.Plan = kept.withDefaults()
	r := newRun(*kept.Rollout, k.Revision, e)
	if err := r.Plan.Check(); err != nil {
		return nil, false, err
	}
	if len(r.Steps) == 0 {
		return nil, false, errors.New("it has no steps")
	}
	r.Report = r.Steps[len(r.Steps)-1].Report
	if r.Since.IsZero() {
		r.Since = r.Steps[0].At
	}
	if r.Model != model || r.Stage < 0 || r.Stage >= len(r.Stages) || r.State < Running || r.State > Expired {
		return nil, false, fmt.Errorf("it is in stage %d of %d and %v, of model %q", r.Stage, len(r.Stages), r.State, r.Model)
	}
	return r, anew, nil
}

// decide makes a decision, all of it or nothing: the rollout's new state is kept, the traffic is divided accordingly,
// provided that it still is the rollout's own, and the candidate is rolled back if all of it goes to the baseline. Nil
// is no change of the traffic.
func (m *Manager) decide(r *run, after *Rollout, t *catalog.Traffic) error {
	m.mu.Lock()
	kept := keptRollout{after, after.StageDuration.String(), after.MaxDuration.String(), nil}
	if after.State == Running {
		kept.Evidence = &r.evidence
	}
	text, err := json.Marshal(kept)
	m.mu.Unlock()
	if err != nil {
		return err
	}
	d := catalog.Decision{Rollout: text, Traffic: t, Expected: r.revision}
	last := after.Steps[len(after.Steps)-1]
	if t != nil {
		t.By = last.By
		// The candidate must not answer again just because it is the newest version.
		if len(t.Split) == 1 && t.Split[0].Version == r.BaselineVersion {
			d.RollBack = &catalog.RolledBack{Version: r.CandidateVersion, By: last.By, Why: last.Reason}
		}
	}
	set, err := m.config.Traffic.Decide(r.Model, d)
	if err == nil && t != nil {
		r.revision = set.Revision
	}
	return err
}

// MarshalText gives the name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the name.
func (s *State) UnmarshalText(text []byte) error { return parse(s, text, Running, Expired) }

// MarshalText gives the name.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads the name. UNSPECIFIED is the verdict of a promotion gate that was not asked yet.
func (v *Verdict) UnmarshalText(text []byte) error { return parse(v, text, 0, Rollback) }

// parse finds the value that has the name, among those from first to last.
func parse[T interface {
	State | Verdict
	fmt.Stringer
}](value *T, name []byte, first, last T) error {
	for *value = first; *value <= last; *value++ {
		if (*value).String() == string(name) {
			return nil
		}
	}
	return errors.New("no such state or verdict")
}

// note adds a step with the latest report, which is the evidence for it.
func (r *Rollout) note(at time.Time, percent float64, by, why string) {
	r.Steps = append(r.Steps, Step{At: at, Percent: percent, State: r.State, By: by, Reason: why, Report: r.Report})
	r.History.mark(&r.Report, at, percent, true)
}
