package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weftserve/weft/internal/ask"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// rolloutCommand is `weft rollout`: it shows and drives the rollout of a model on a running server.
type rolloutCommand struct {
	Start   rolloutStart   `cmd:"" help:"Give a candidate version growing traffic, stage by stage." example:"weft rollout start cartpole --baseline 2 --candidate 3 --outcome reward"`
	Show    rolloutShow    `cmd:"" help:"Show the stage of a rollout and its evidence." example:"weft rollout show cartpole"`
	Advance rolloutAdvance `cmd:"" help:"Go to the next stage now, even against the gate." example:"weft rollout advance cartpole"`
	Abort   rolloutAbort   `cmd:"" help:"Return all traffic to the baseline." example:"weft rollout abort cartpole"`
}

// adminTarget is the model of a command, and the server that changes it.
type adminTarget struct {
	Model string `arg:"" help:"Name of the model."`
	ask.Admin
}

// adminPatience is how long a command waits for a server: for the connection and the answer together.
const adminPatience = 10 * time.Second

// ask makes one call, and prints the rollout in its answer.
func (t *adminTarget) ask(call func(context.Context, *grpc.ClientConn) (rolloutAnswer, error), out io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), adminPatience)
	defer cancel()
	var answer rolloutAnswer
	err := t.Call(ctx, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		answer, err = call(ctx, conn)
		return err
	})
	if err != nil {
		return err
	}
	if answer.GetRollout() == nil {
		return fmt.Errorf("model %s has had no rollout; begin one with `weft rollout start %s --baseline V --candidate W`",
			t.Model, t.Model)
	}
	err = printRollout(out, answer.GetRollout())
	// Only answers to changes have it: a rollout that is not kept ends with the server.
	if change, is := answer.(interface{ GetNotPersistedBecause() string }); is &&
		change.GetNotPersistedBecause() != "" {
		_, told := fmt.Fprintf(out, "this ends with the server: %s\n", change.GetNotPersistedBecause())
		err = errors.Join(err, told)
	}
	return err
}

// rolloutAnswer is the common part of the answers to all calls about a rollout.
type rolloutAnswer interface{ GetRollout() *weftv1.Rollout }

// rolloutShow is `weft rollout show`. It reads through ModelService, which the admin address serves, too.
type rolloutShow struct{ adminTarget }

// Run prints the rollout.
func (c *rolloutShow) Run(s streams) error {
	return c.ask(func(ctx context.Context, conn *grpc.ClientConn) (rolloutAnswer, error) {
		return weftv1.NewModelServiceClient(conn).GetRollout(ctx, &weftv1.GetRolloutRequest{Model: c.Model})
	}, s.out)
}

// rolloutStart is `weft rollout start`. Its flags are the fields of weft.v1.Rollout and weft.v1.Gate.
type rolloutStart struct {
	adminTarget
	Baseline  int64 `required:"" placeholder:"VERSION" help:"The version that serves now."`
	Candidate int64 `required:"" placeholder:"VERSION" help:"The version to test."`
	rolloutPlan
}

// rolloutPlan is the stages of a rollout, and what the gate asks for.
type rolloutPlan struct {
	Stages    []float64     `default:"1,10,50,100" help:"Percentages of the traffic for the candidate, ascending to 100."`
	Stage     time.Duration `default:"30s" help:"Shortest duration of a stage; a rollback does not wait for it."`
	Automatic bool          `default:"true" negatable:"" help:"Advance and roll back without further commands (the default)."`

	MaxDuration time.Duration `default:"168h" help:"With --automatic: end without a verdict after this time; the baseline gets all traffic."`

	MinRequests   int64    `default:"100" help:"Requests that the candidate must answer in each stage."`
	MinEpisodes   int64    `default:"20" help:"With --outcome: episodes with it that each version needs. Without --outcome-min and --outcome-max at least 300 are needed."`
	MaxErrorRate  float64  `default:"0.01" help:"Allowed excess over the baseline in the fraction of model failures and of slow requests."`
	MaxLatency    float64  `name:"max-latency-ratio" default:"1.5" help:"A request of the candidate is slow above this multiple of the baseline's p95 compute time."`
	MinAgreement  float64  `default:"0" help:"Fraction of shadowed requests that must agree; 0 disables the check."`
	MaxFailures   float64  `name:"max-failure-increase" default:"0.01" help:"Allowed excess over the baseline in the fraction of other failures, except for lack of capacity or time."`
	MaxLost       float64  `name:"max-lost-increase" default:"0.05" help:"With --outcome: allowed excess over the baseline in the fraction of episodes that end without one."`
	Outcome       string   `default:"" placeholder:"NAME" help:"The outcome to compare, such as reward; empty disables the check."`
	LowerIsBetter bool     `help:"A lower outcome is better."`
	Margin        float64  `default:"0" help:"Allowed shortfall of the candidate's mean outcome, in its units; with 0 the candidate must be better."`
	OutcomeMin    *float64 `placeholder:"NUMBER" help:"The least possible outcome. By default, Weft learns the range from the outcomes."`
	OutcomeMax    *float64 `placeholder:"NUMBER" help:"The greatest possible outcome."`
	Alpha         float64  `default:"0.05" help:"Largest probability of a wrong promotion, and of a wrong rollback."`
}

// Run starts the rollout and prints it.
func (c *rolloutStart) Run(s streams) error {
	return c.ask(func(ctx context.Context, conn *grpc.ClientConn) (rolloutAnswer, error) {
		return weftv1.NewAdminServiceClient(conn).StartRollout(ctx,
			&weftv1.StartRolloutRequest{Rollout: &weftv1.Rollout{
				Model: c.Model, BaselineVersion: c.Baseline, CandidateVersion: c.Candidate,
				Stages: c.Stages, Automatic: c.Automatic, StageDuration: durationpb.New(c.Stage),
				MaxDuration: durationpb.New(c.MaxDuration),
				Gate: &weftv1.Gate{
					MinRequests: c.MinRequests, MinEpisodes: c.MinEpisodes, MaxErrorRate: c.MaxErrorRate,
					MaxLatencyRatio: c.MaxLatency,
					MinAgreement:    c.MinAgreement, Outcome: c.Outcome, LowerIsBetter: c.LowerIsBetter,
					Margin: c.Margin, Alpha: c.Alpha,
					MaxFailureIncrease: c.MaxFailures, MaxLostIncrease: c.MaxLost,
					OutcomeMin: c.OutcomeMin, OutcomeMax: c.OutcomeMax,
				},
			}})
	}, s.out)
}

// rolloutAdvance is `weft rollout advance`.
type rolloutAdvance struct{ adminTarget }

// Run advances the rollout and prints it.
func (c *rolloutAdvance) Run(s streams) error {
	return c.ask(func(ctx context.Context, conn *grpc.ClientConn) (rolloutAnswer, error) {
		return weftv1.NewAdminServiceClient(conn).AdvanceRollout(ctx, &weftv1.AdvanceRolloutRequest{Model: c.Model})
	}, s.out)
}

// rolloutAbort is `weft rollout abort`.
type rolloutAbort struct{ adminTarget }

// Run aborts the rollout and prints it.
func (c *rolloutAbort) Run(s streams) error {
	return c.ask(func(ctx context.Context, conn *grpc.ClientConn) (rolloutAnswer, error) {
		return weftv1.NewAdminServiceClient(conn).AbortRollout(ctx, &weftv1.AbortRolloutRequest{Model: c.Model})
	}, s.out)
}

// printRollout prints the steps of a rollout so far, each with the checks that led to it, and while it runs the present
// verdict of the gate.
func printRollout(w io.Writer, r *weftv1.Rollout) error {
	var errs []error
	line := func(format string, args ...any) {
		_, err := fmt.Fprintf(w, format+"\n", args...)
		errs = append(errs, err)
	}
	line("%s: version %d beside %d: %s", r.GetModel(), r.GetCandidateVersion(), r.GetBaselineVersion(),
		word(r.GetState().String(), "ROLLOUT_STATE_"))
	for _, step := range r.GetSteps() {
		line("%s  %5g %%  %s (%s)", step.GetAt().AsTime().Local().Format(time.DateTime), step.GetPercent(),
			step.GetReason(), step.GetBy())
		for _, check := range step.GetReport().GetChecks() {
			line("                        %-9s %-8s %s", check.GetName(), word(check.GetVerdict().String(), "VERDICT_"),
				check.GetReason())
		}
	}
	if summary := r.GetReport().GetSummary(); summary != "" {
		line("%s", summary)
	}
	// Episodes that do not count point to a mistake in the client.
	for _, x := range r.GetReport().GetExcluded() {
		switch x.GetReason() {
		case "same_draw":
			line("%d episodes had an episode_id that was used before, and went where that led: give each episode an id of "+
				"its own", x.GetBaseline()+x.GetCandidate())
		case "two_tables":
			line("%d episodes were led by two tables of the traffic, as of servers that divide it otherwise, and do not count",
				x.GetBaseline()+x.GetCandidate())
		case "outside":
			line("%d outcomes were of episodes that the split did not assign, and do not count",
				x.GetBaseline()+x.GetCandidate())
		}
	}
	if r.GetState() == weftv1.RolloutState_ROLLOUT_STATE_RUNNING {
		line("the gate says %s:", word(r.GetReport().GetVerdict().String(), "VERDICT_"))
		for _, check := range r.GetReport().GetChecks() {
			line("  %-9s %-8s %s", check.GetName(), word(check.GetVerdict().String(), "VERDICT_"), check.GetReason())
		}
	}
	return errors.Join(errs...)
}

// word turns the name of an enum's value into words, without the prefix that all values share.
func word(name, prefix string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, prefix)), "_", " ")
}
