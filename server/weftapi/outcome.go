package weftapi

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/rollout"
	"github.com/weftserve/weft/server/wire"
)

// maxOutcomes bounds the numbers of one report, reward and success included.
const maxOutcomes = 16

// ReportOutcome implements weftv1.PredictionServiceServer. It ends the episode. A number that is not kept is no error:
// the answer names it with the reason.
func (s Predictions) ReportOutcome(
	ctx context.Context, req *weftv1.ReportOutcomeRequest,
) (*weftv1.ReportOutcomeResponse, error) {
	if err := predict.CheckModel(req.GetModel().GetName()); err != nil {
		return nil, s.Fail(ctx, err, predict.Place{})
	}
	m, err := s.table().Model(req.GetModel().GetName())
	if err != nil {
		return nil, s.Fail(ctx, err, predict.Place{})
	}
	values, err := outcomeValues(req)
	if err != nil {
		return nil, s.Fail(ctx, err, predict.Place{})
	}
	v, err := s.served(m, req)
	if err != nil {
		return nil, s.Fail(ctx, err, predict.Place{})
	}
	number := v.Number
	// The rollout hears of it before the router ends the episode: else it would count the episode as lost, as one that
	// ended without a report.
	kept := s.Rollouts == nil ||
		s.Rollouts.Report(m.Name, req.GetEpisodeId(), number, values, req.GetTables(), reporter(ctx))
	s.Pipeline.Router().Reported(m.Name, req.GetEpisodeId())
	caller := ""
	if by := access.CallerOf(ctx); by != nil {
		caller = by.Caller.Name
	}
	s.Pipeline.EndEpisode(caller, m.Name, req.GetEpisodeId())
	if s.Outcomes != nil {
		s.Outcomes.OutcomeReported(m.Name, number)
	}
	resp := &weftv1.ReportOutcomeResponse{Model: resolvedSpec(v)}
	if kept {
		return resp, nil
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		resp.NotKept = append(resp.NotKept, &weftv1.OutcomeNotKept{
			Name: name, Reason: weftv1.NotKeptReason_NOT_KEPT_REASON_VERSION_GONE,
			Message: fmt.Sprintf("version %d of model %q is not there any more", number, m.Name),
		})
		if s.Outcomes != nil {
			s.Outcomes.OutcomeNotKept(m.Name, number, "version_gone")
		}
	}
	return resp, nil
}

// served returns the version that an episode is reported for: the one that the message names by number or by label, or
// else the one that the router remembers for the episode. It need not be ready any more. The error is that of
// routing.Table.Resolve, which says why, or a *tensor.FieldError if nobody knows the version.
func (s Predictions) served(m *catalog.Model, req *weftv1.ReportOutcomeRequest) (*catalog.Version, error) {
	choice := wire.Choice(req.GetModel())
	switch {
	case choice.Label != nil:
		if number, ok := m.Labels[*choice.Label]; ok {
			choice.Version = &number
		}
	case choice.Version == nil: // neither a number nor a label
		number, known := s.Pipeline.Router().VersionOf(m.Name, req.GetEpisodeId())
		if !known {
			return nil, &tensor.FieldError{
				Field: "model.version",
				Want: "the version that served the episode, as its answers gave it, " +
					"because the episode is not remembered (any more)",
				Got: "none",
			}
		}
		choice.Version = &number
	}
	if choice.Version != nil {
		if v := m.Version(*choice.Version); v != nil {
			return v, nil
		}
		if choice.Label != nil {
			choice.Version = nil // the caller named the label, so the error is to be about that
		}
	}
	// The version is not there: the routing table has the words for that.
	_, err := s.table().Resolve(m.Name, choice)
	return nil, err
}

// outcomeValues returns the reported numbers, by name. The error is a *tensor.FieldError.
func outcomeValues(req *weftv1.ReportOutcomeRequest) (map[string]float64, error) {
	if req.GetEpisodeId() == "" {
		return nil, &tensor.FieldError{
			Field: "episode_id", Want: "the id that the requests of the episode had", Got: "none",
		}
	}
	if err := predict.CheckID("episode_id", req.GetEpisodeId()); err != nil {
		return nil, err
	}
	values := map[string]float64{}
	for name, value := range req.GetMetrics() {
		if !validName.MatchString(name) || name == "reward" || name == "success" {
			return nil, &tensor.FieldError{
				Field: "metrics", Want: nameRule + "; neither reward nor success, which have fields of their own",
				Got: strconv.Quote(predict.Clip(name)),
			}
		}
		values[name] = value
	}
	if req.Reward != nil {
		values["reward"] = req.GetReward()
	}
	if req.Success != nil {
		values["success"] = 0
		if req.GetSuccess() {
			values["success"] = 1
		}
	}
	switch {
	case len(values) == 0:
		return nil, &tensor.FieldError{
			Field: "reward", Want: "at least one of reward, success and metrics", Got: "none",
		}
	case len(values) > maxOutcomes:
		return nil, &tensor.FieldError{
			Field: "metrics", Want: fmt.Sprintf("at most %d numbers", maxOutcomes), Got: strconv.Itoa(len(values)),
		}
	}
	// In order, so that the same report always gets the same error.
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if value := values[name]; !(math.Abs(value) <= rollout.MaxOutcome) { // true of NaN, too
			// reward has a field of its own; success is 0 or 1 and never gets here.
			field := name
			if name != "reward" {
				field = fmt.Sprintf("metrics[%q]", name)
			}
			return nil, &tensor.FieldError{
				Field: field, Want: fmt.Sprintf("a number from %g to %g", -rollout.MaxOutcome, rollout.MaxOutcome),
				Got: fmt.Sprint(value),
			}
		}
	}
	return values, nil
}

// OutcomeObserver is notified of reports, for metrics. Calls come from any goroutine and must not block.
type OutcomeObserver interface {
	// OutcomeReported follows every report of how an episode went.
	OutcomeReported(model string, version int64)
	// OutcomeNotKept follows for each number of a report that was not kept. The reason is one of few constants.
	OutcomeNotKept(model string, version int64, reason string)
}

// reporter names the identity that reports, "" where nobody is told apart.
func reporter(ctx context.Context) string {
	if by := access.CallerOf(ctx); by != nil {
		return by.String()
	}
	return ""
}
