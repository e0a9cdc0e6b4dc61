package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/proto/weftclient"
)

// rollout is the wish to lead a candidate version through growing traffic, by the reward of the episodes that it
// steers.
type rollout struct {
	admin               string // host:port of the server's admin address
	baseline, candidate int64
	stage               time.Duration // each lasts at least that long
}

// parseRollout reads BASELINE:CANDIDATE.
func parseRollout(s string) (r rollout, err error) {
	baseline, candidate, ok := strings.Cut(s, ":")
	r.baseline, _ = strconv.ParseInt(baseline, 10, 64)
	r.candidate, _ = strconv.ParseInt(candidate, 10, 64)
	if !ok || r.baseline < 1 || r.candidate < 1 || r.baseline == r.candidate {
		return r, fmt.Errorf("--rollout %q: want two different versions, BASELINE:CANDIDATE, such as 2:3", s)
	}
	return r, nil
}

// reportPeriod is the time between two looks at the rollout.
const reportPeriod = 500 * time.Millisecond

// lead starts the rollout, prints each of its steps with the evidence, and returns when it has ended. play must keep
// episodes going until its context ends, whose rewards are most at most.
func (r rollout) lead(ctx context.Context, model string, most float64, stdout io.Writer, show weftv1.ModelServiceClient,
	play func(context.Context),
) error {
	admin, err := weftclient.New(r.admin)
	if err != nil {
		return fmt.Errorf("--admin %s: %w", r.admin, err)
	}
	defer admin.Close()
	rollouts := weftv1.NewAdminServiceClient(admin.Conn())
	_, err = rollouts.StartRollout(ctx, &weftv1.StartRolloutRequest{Rollout: &weftv1.Rollout{
		Model: model, BaselineVersion: r.baseline, CandidateVersion: r.candidate, Automatic: true,
		Stages: []float64{10, 50, 100}, StageDuration: durationpb.New(r.stage),
		// The policies answer in well under a millisecond, where a ratio of latencies says more of the machine than of
		// them.
		Gate: &weftv1.Gate{
			MinRequests: 100, MinEpisodes: 20, MaxErrorRate: 0.5, MaxFailureIncrease: 0.5, MaxLatencyRatio: 10,
			MaxLostIncrease: 0.5, Outcome: "reward", OutcomeMin: new(0.0), OutcomeMax: new(most),
		},
	}})
	if err != nil {
		text := fmt.Sprintf("start the rollout at --admin %s: %s", r.admin, status.Convert(err).Message())
		if status.Code(err) == codes.FailedPrecondition { // one of an earlier run goes on without its client
			text += fmt.Sprintf("; `weft rollout abort %s` ends one that is running", model)
		}
		return errors.New(text)
	}

	ctx, cancel := context.WithCancel(ctx)
	played := make(chan struct{})
	go func() {
		defer close(played)
		play(ctx)
	}()
	defer func() {
		cancel()
		<-played
	}()
	tick := time.NewTicker(reportPeriod)
	defer tick.Stop()
	for told := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		answer, err := show.GetRollout(ctx, &weftv1.GetRolloutRequest{Model: model})
		if err != nil {
			return fmt.Errorf("ask for the rollout: %w", err)
		}
		now := answer.GetRollout()
		for _, step := range now.GetSteps()[min(told, len(now.GetSteps())):] {
			fmt.Fprintf(stdout, "version %d has %g %% of the episodes: %s\n", r.candidate, step.GetPercent(),
				step.GetReason())
			for _, check := range step.GetReport().GetChecks() {
				fmt.Fprintf(stdout, "    %s: %s\n", check.GetName(), check.GetReason())
			}
		}
		told = len(now.GetSteps())
		if state := now.GetState(); state != weftv1.RolloutState_ROLLOUT_STATE_RUNNING {
			fmt.Fprintf(stdout, "the rollout has ended: %s\n",
				strings.ToLower(strings.TrimPrefix(state.String(), "ROLLOUT_STATE_")))
			return nil
		}
	}
}
