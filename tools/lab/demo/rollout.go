package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// callTime is how long a call of the demo itself may take.
const callTime = 5 * time.Second

// startRollout has the server lead version 2 through growing traffic beside version 1, by the reward.
func (d *stage) startRollout(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	_, err := weftv1.NewAdminServiceClient(d.admin.Conn()).StartRollout(ctx, &weftv1.StartRolloutRequest{
		Rollout: &weftv1.Rollout{
			Model: policy, BaselineVersion: baseline, CandidateVersion: candidate, Automatic: true,
			Stages: []float64{20, 50, 100}, StageDuration: durationpb.New(10 * time.Second),
			Gate: &weftv1.Gate{
				// Times of a network this small say more of the machine than of it.
				MinRequests: 100, MinEpisodes: 8, MaxErrorRate: 0.5, MaxLatencyRatio: 3, MaxFailureIncrease: 0.5,
				MaxLostIncrease: 0.5, Outcome: "reward", OutcomeMin: new(0.0), OutcomeMax: new(500.0),
			},
		},
	})
	if err != nil {
		return fmt.Errorf("[c] the server starts no canary: %s", status.Convert(err).Message())
	}
	d.rollout, d.steps = true, 0
	d.say("[c] Version %d gets a part of the episodes beside version %d, and the server compares their rewards:\n"+
		"    see \"Which version is better?\" on the page. It decides within about a minute. The evidence:\n"+
		"    `%s rollout show %s%s`.",
		candidate, baseline, d.server.weft, policy, d.adminFlags())
	return nil
}

func (d *stage) adminFlags() string {
	if d.server.usual {
		return ""
	}
	return " --admin " + d.server.Admin
}

// watchRollout tells each step of a rollout once.
func (d *stage) watchRollout(ctx context.Context) {
	if !d.rollout {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	answer, err := d.models().GetRollout(ctx, &weftv1.GetRolloutRequest{Model: policy})
	if err != nil { // asked again in a moment
		return
	}
	r := answer.GetRollout()
	for _, step := range r.GetSteps()[min(d.steps, len(r.GetSteps())):] {
		state := strings.ToLower(strings.TrimPrefix(step.GetState().String(), "ROLLOUT_STATE_"))
		d.say("[c] %s: version %d gets %g %%. %s.", strings.ReplaceAll(state, "_", " "), candidate, step.GetPercent(),
			strings.TrimSuffix(step.GetReason(), "."))
	}
	d.steps = len(r.GetSteps())
	d.rollout = r.GetState() == weftv1.RolloutState_ROLLOUT_STATE_RUNNING
}
