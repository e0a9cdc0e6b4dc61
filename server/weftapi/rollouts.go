package weftapi

import (
	"context"
	"errors"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/rollout"
)

// Rollouts compares versions by how they did, and moves traffic to the better ones. Errors are those of package
// rollout.
type Rollouts interface {
	// Report hears how an episode went, from an identity; by is "" where callers are not told apart. tables are what its
	// answers named. It reports whether the version is there; if not, none of the values is kept.
	Report(
		model, episode string, version int64, values map[string]float64, tables []string, by string,
	) (there bool)

	// Start begins a rollout, Advance takes it to its next stage, and Abort ends it. by names the caller.
	Start(p rollout.Plan, by string) (rollout.Rollout, error)
	Advance(model, by string) (rollout.Rollout, error)
	Abort(model, by string) (rollout.Rollout, error)
	// Get returns the latest rollout of a model, false if there was none.
	Get(model string) (rollout.Rollout, bool)
}

// errNoRollouts is the error of changes on a server that was made without rollouts.
var errNoRollouts = errors.New("this server has no rollouts")

// GetRollout implements weftv1.ModelServiceServer.
func (s Catalog) GetRollout(ctx context.Context, req *weftv1.GetRolloutRequest) (*weftv1.GetRolloutResponse, error) {
	if _, err := s.model(req.GetModel()); err != nil {
		return nil, s.Fail(ctx, err, predict.Place{})
	}
	resp := &weftv1.GetRolloutResponse{}
	if s.Rollouts == nil {
		return resp, nil
	}
	if r, ok := s.Rollouts.Get(req.GetModel()); ok {
		resp.Rollout = rolloutMessage(&r)
	}
	return resp, nil
}

// StartRollout implements weftv1.AdminServiceServer.
func (a Admin) StartRollout(
	ctx context.Context, req *weftv1.StartRolloutRequest,
) (*weftv1.StartRolloutResponse, error) {
	plan := planOf(req.GetRollout())
	c := &attempt{call: "StartRollout", request: req, model: plan.Model, show: division}
	r, err := a.drive(ctx, c, func(r Rollouts) (rollout.Rollout, error) { return r.Start(plan, caller(ctx)) })
	persisted, why := a.persisted()
	return &weftv1.StartRolloutResponse{Rollout: r, Persisted: persisted, NotPersistedBecause: why}, err
}

// AdvanceRollout implements weftv1.AdminServiceServer.
func (a Admin) AdvanceRollout(
	ctx context.Context, req *weftv1.AdvanceRolloutRequest,
) (*weftv1.AdvanceRolloutResponse, error) {
	c := &attempt{call: "AdvanceRollout", request: req, model: req.GetModel(), show: division}
	r, err := a.drive(ctx, c, func(r Rollouts) (rollout.Rollout, error) {
		return r.Advance(req.GetModel(), caller(ctx))
	})
	persisted, why := a.persisted()
	return &weftv1.AdvanceRolloutResponse{Rollout: r, Persisted: persisted, NotPersistedBecause: why}, err
}

// AbortRollout implements weftv1.AdminServiceServer.
func (a Admin) AbortRollout(
	ctx context.Context, req *weftv1.AbortRolloutRequest,
) (*weftv1.AbortRolloutResponse, error) {
	c := &attempt{call: "AbortRollout", request: req, model: req.GetModel(), show: division}
	r, err := a.drive(ctx, c, func(r Rollouts) (rollout.Rollout, error) { return r.Abort(req.GetModel(), caller(ctx)) })
	persisted, why := a.persisted()
	return &weftv1.AbortRolloutResponse{Rollout: r, Persisted: persisted, NotPersistedBecause: why}, err
}

// drive changes a model's rollout, by do, and returns it as it is afterwards. It has try write the line in the log.
func (a Admin) drive(
	ctx context.Context, c *attempt, do func(Rollouts) (rollout.Rollout, error),
) (*weftv1.Rollout, error) {
	var r rollout.Rollout
	err := a.try(ctx, c, func() (err error) {
		if _, err := a.model(c.model); err != nil {
			return err
		}
		if a.Rollouts == nil {
			return errNoRollouts
		}
		r, err = do(a.Rollouts)
		return err
	})
	if err != nil {
		return nil, err
	}
	return rolloutMessage(&r), nil
}

// planOf converts a message to a plan. Fields that are missing have zero values, which package rollout takes for its
// defaults; it also checks the plan.
func planOf(m *weftv1.Rollout) rollout.Plan {
	g := m.GetGate()
	if g == nil { // OutcomeMin and OutcomeMax are read without their getters, which turn nil into 0
		g = &weftv1.Gate{}
	}
	return rollout.Plan{
		Model: m.GetModel(), BaselineVersion: m.GetBaselineVersion(), CandidateVersion: m.GetCandidateVersion(),
		Stages: m.GetStages(), Automatic: m.GetAutomatic(), StageDuration: m.GetStageDuration().AsDuration(),
		Gate: rollout.Gate{
			MinRequests: g.GetMinRequests(), MinEpisodes: g.GetMinEpisodes(), MaxErrorRate: g.GetMaxErrorRate(),
			MaxLatencyRatio: g.GetMaxLatencyRatio(), MinAgreement: g.GetMinAgreement(), Outcome: g.GetOutcome(),
			LowerIsBetter: g.GetLowerIsBetter(), Margin: g.GetMargin(), Alpha: g.GetAlpha(),
			MaxFailureIncrease: g.GetMaxFailureIncrease(), MaxLostIncrease: g.GetMaxLostIncrease(),
			OutcomeMin: g.OutcomeMin, OutcomeMax: g.OutcomeMax,
		},
		MaxDuration: m.GetMaxDuration().AsDuration(),
	}
}

// rolloutMessage converts a rollout. The numbers of states and verdicts are those of the API, so they are converted as
// numbers.
func rolloutMessage(r *rollout.Rollout) *weftv1.Rollout {
	out := &weftv1.Rollout{
		Model: r.Model, BaselineVersion: r.BaselineVersion, CandidateVersion: r.CandidateVersion,
		Stages: r.Stages, Automatic: r.Automatic, StageDuration: durationpb.New(r.StageDuration),
		Gate: &weftv1.Gate{
			MinRequests: r.Gate.MinRequests, MinEpisodes: r.Gate.MinEpisodes, MaxErrorRate: r.Gate.MaxErrorRate,
			MaxLatencyRatio: r.Gate.MaxLatencyRatio, MinAgreement: r.Gate.MinAgreement, Outcome: r.Gate.Outcome,
			LowerIsBetter: r.Gate.LowerIsBetter, Margin: r.Gate.Margin, Alpha: r.Gate.Alpha,
			MaxFailureIncrease: r.Gate.MaxFailureIncrease, MaxLostIncrease: r.Gate.MaxLostIncrease,
			OutcomeMin: r.Gate.OutcomeMin, OutcomeMax: r.Gate.OutcomeMax,
		},
		MaxDuration: durationpb.New(r.MaxDuration),
		State:       weftv1.RolloutState(r.State), Stage: int32(r.Stage), StageSince: timestamppb.New(r.StageSince),
		Report: reportMessage(&r.Report),
	}
	if r.Gate.Outcome != "" {
		out.History = historyMessage(&r.History)
	}
	for i := range r.Steps {
		step := &r.Steps[i]
		out.Steps = append(out.Steps, &weftv1.RolloutStep{
			At: timestamppb.New(step.At), Percent: step.Percent, State: weftv1.RolloutState(step.State),
			Reason: step.Reason, By: step.By, Report: reportMessage(&step.Report),
		})
	}
	return out
}

// reportMessage converts what the gate saw; nil: it was not asked yet.
func reportMessage(r *rollout.Report) *weftv1.GateReport {
	if r.Verdict == 0 {
		return nil
	}
	out := &weftv1.GateReport{Verdict: weftv1.Verdict(r.Verdict), At: timestamppb.New(r.At)}
	for _, check := range r.Checks {
		out.Checks = append(out.Checks, &weftv1.GateCheck{
			Name: check.Name, Verdict: weftv1.Verdict(check.Verdict), Reason: check.Reason,
		})
	}
	for _, c := range r.Codes {
		out.Codes = append(out.Codes, &weftv1.CodeCount{Code: c.Code, Baseline: c.Baseline, Candidate: c.Candidate})
	}
	// Absent as long as no episode has begun.
	if r.BaselineEpisodes != (rollout.Episodes{}) || r.CandidateEpisodes != (rollout.Episodes{}) {
		out.BaselineEpisodes = episodesMessage(r.BaselineEpisodes)
		out.CandidateEpisodes = episodesMessage(r.CandidateEpisodes)
	}
	reportMetrics(out, r)
	return out
}

func episodesMessage(e rollout.Episodes) *weftv1.EpisodeCounts {
	return &weftv1.EpisodeCounts{
		Begun: e.Begun, Reported: e.Reported, Waiting: e.Waiting, Unfinished: e.Unfinished, Lost: e.Lost,
	}
}
