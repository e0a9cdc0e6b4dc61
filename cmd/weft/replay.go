package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/record"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/rollout"
)

// Exit statuses of `weft replay` beyond 0, which is PROMOTE, and those of every command.
const (
	statusHold     = 3
	statusRollback = 4
)

// replayCommand is `weft replay`: recorded requests once more, to another version.
type replayCommand struct {
	Files   []string `arg:"" name:"file" help:"Files that \"weft serve --record\" wrote, or directories of them." type:"path"`
	Target  string   `required:"" help:"The server that gets the requests." placeholder:"HOST:PORT"`
	Model   string   `help:"Replay the requests of this model; without it, those of the model of the first one." placeholder:"NAME"`
	Version int64    `help:"Send them to this version. Without it and --label, each asks for what it asked for when it was recorded." xor:"choice" placeholder:"N"`
	Label   string   `help:"Send them to the version with this label." xor:"choice" placeholder:"NAME"`

	RecordedVersion int64 `help:"Replay only what this version answered then." placeholder:"N"`

	Speed       replaySpeed     `default:"recorded" help:"recorded: with the recorded time between them; 2, 0.5, ...: so many times as fast; max: with --concurrency of them in flight."`
	Concurrency int             `default:"64" help:"Requests in flight at most. What is due later than that allows is sent late, which the report says."`
	MaxGap      config.Duration `help:"Cut longer recorded times between two requests to this (before --speed), such as hours without traffic; without it, all are kept. What a server does in a pause (queues run empty, clocks fall, episodes expire) is then not replayed, and overload is no proof against the version." placeholder:"DURATION"`
	Timeout     config.Duration `help:"Limit of each request. Without it: the limit that it was recorded with, else 30s." placeholder:"DURATION"`
	replayTolerances

	MinRequests     int64   `default:"100" help:"Gate: requests that must have been answered."`
	MaxErrorRate    float64 `default:"0.01" help:"Gate: largest part of the requests that may fail with a fault of the model."`
	MaxLatencyRatio float64 `default:"1.5" help:"Gate: largest ratio of the 95th percentiles of the compute time, replayed to recorded."`
	MaxFailures     float64 `name:"max-failure-increase" default:"0.01" help:"Gate: of the requests that were answered when recorded, largest part that may fail now, whatever the code but for faults of the model, beyond the part that failed then."`
	MaxUncompared   float64 `default:"0.1" help:"Gate: largest part of the requests that may have nothing to compare with: failed when recorded, recorded without inputs, not recorded, answered in another type or shape."`
	MinAgreement    float64 `default:"0" help:"Gate: least part of the answers that must agree; 0: another policy may well answer otherwise."`
}

// Help says what the flags do not.
func (replayCommand) Help() string {
	return `Recorded requests are sent once more, each when it is due whether or not others were answered, and the
answers compared with the recorded ones: output by output, in latency, and by code. Then a gate judges. A
request that was answered then and fails now speaks against the version whatever its code; but where requests
were sent faster than they were recorded, refusals and expiries may be the load's fault: then it says HOLD.

The exit status is 0 for PROMOTE, 3 for HOLD, 4 for ROLLBACK; 1 if the recording could not be replayed, 2 for
a wrong command line. Requests need their whole inputs ("weft serve --record-inputs full"). What came over a
stream is sent by itself.`
}

// verdictError is a gate's verdict that is not PROMOTE, as an exit status.
type verdictError struct{ verdict rollout.Verdict }

func (e *verdictError) Error() string { return "the gate says " + e.verdict.String() }

// ExitCode is the exit status of the verdict.
func (e *verdictError) ExitCode() int {
	if e.verdict == rollout.Rollback {
		return statusRollback
	}
	return statusHold
}

// Run replays. A verdict that is not PROMOTE is a *verdictError.
func (c *replayCommand) Run(s streams) error {
	if err := c.check(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	conn, err := grpc.NewClient(c.Target, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	if err != nil {
		return fmt.Errorf("--target %s: %w", c.Target, err)
	}
	defer conn.Close()
	return c.replay(ctx, s, weftv1.NewPredictionServiceClient(conn))
}

func (c *replayCommand) check() error {
	if err := c.replayTolerances.check(); err != nil {
		return err
	}
	gate := c.gate()
	switch {
	case c.MinRequests < 1 || !(c.MaxErrorRate > 0) || !(c.MaxLatencyRatio > 0) || !(c.MaxFailures > 0): // 0 is the gate's default
		return errors.New("--min-requests, --max-error-rate, --max-latency-ratio and --max-failure-increase: expected a number above 0")
	case !(c.MaxUncompared >= 0 && c.MaxUncompared <= 1):
		return fmt.Errorf("--max-uncompared: expected a number from 0 to 1, found %v", c.MaxUncompared)
	case c.MaxGap < 0:
		return fmt.Errorf("--max-gap: expected a duration of at least 0, found %v", time.Duration(c.MaxGap))
	case c.Concurrency < 1:
		return fmt.Errorf("--concurrency: expected at least 1, found %d", c.Concurrency)
	case c.Version < 0 || c.RecordedVersion < 0:
		return errors.New("--version and --recorded-version: expected a positive number")
	}
	return gate.Check()
}

func (c *replayCommand) gate() rollout.Gate {
	return rollout.Gate{
		MinRequests: c.MinRequests, MaxErrorRate: c.MaxErrorRate, MaxLatencyRatio: c.MaxLatencyRatio, MinAgreement: c.MinAgreement,
		MaxFailureIncrease: c.MaxFailures,
	}
}

// replay sends everything to a server and reports.
func (c *replayCommand) replay(ctx context.Context, s streams, to weftv1.PredictionServiceClient) error {
	reader, err := record.Open(c.Files...)
	if err != nil {
		return err
	}
	r := &recording{reader: reader, model: c.Model, version: c.RecordedVersion, complain: s.err}
	first, err := r.first()
	if err != nil {
		return err
	}
	facts, err := c.askTarget(ctx, to, first.Request)
	if err != nil {
		return err
	}
	if err := c.checkOutputs(facts.GetSignature()); err != nil {
		return fmt.Errorf("%s: %w", c.asked(), err)
	}
	found := newComparison(facts.GetSignature(), &c.replayTolerances)
	fmt.Fprintf(s.err, "replaying %d files, speed %v\n", len(reader.Files()), c.Speed)
	progress := newReplayProgress(s.err)
	r.complain = progress
	sender := &replaySender{
		speed: c.Speed, concurrency: c.Concurrency, timeout: time.Duration(c.Timeout), maxGap: time.Duration(c.MaxGap),
		choose: func(q *weftv1.PredictRequest) {
			progress.sending()
			c.choose(q)
		},
		done: func(q replayed) {
			found.add(q)
			progress.done(q.err != nil)
		},
		predict: func(ctx context.Context, q *weftv1.PredictRequest) (*weftv1.PredictResponse, error) {
			return to.Predict(ctx, q)
		},
	}
	start := time.Now()
	err = sender.run(ctx, inOrder(progress.reading(reader, r.entries()), replayAhead, replayAheadBytes))
	progress.close()
	if err != nil {
		return err
	}
	report := &replayReport{recording: r, comparison: found, sender: sender, took: time.Since(start), asked: c.asked(), target: c.Target}
	report.judge(c.gate(), c.MaxUncompared)
	if err := report.print(s.out); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errors.New("interrupted before the recording ended; the verdict does not count")
	}
	if report.verdict.Verdict != rollout.Promote {
		return &verdictError{report.verdict.Verdict}
	}
	return nil
}

// askTarget asks what the target knows of the model: a mistake in the flags should be told before anything is sent.
func (c *replayCommand) askTarget(ctx context.Context, to weftv1.PredictionServiceClient, q *weftv1.PredictRequest) (*weftv1.GetModelMetadataResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c.choose(q)
	facts, err := to.GetModelMetadata(ctx, &weftv1.GetModelMetadataRequest{Model: q.GetModel()}, grpc.WaitForReady(true))
	if err != nil {
		return nil, fmt.Errorf("--target %s: ask for %s: %w", c.Target, c.asked(), err)
	}
	return facts, nil
}

// choose makes the request ask for the version that was chosen.
func (c *replayCommand) choose(q *weftv1.PredictRequest) {
	switch {
	case c.Version > 0:
		q.Model = &weftv1.ModelSpec{Name: q.GetModel().GetName(), VersionChoice: &weftv1.ModelSpec_Version{Version: c.Version}}
	case c.Label != "":
		q.Model = &weftv1.ModelSpec{Name: q.GetModel().GetName(), VersionChoice: &weftv1.ModelSpec_Label{Label: c.Label}}
	}
}

func (c *replayCommand) asked() string {
	switch {
	case c.Version > 0:
		return fmt.Sprintf("version %d", c.Version)
	case c.Label != "":
		return fmt.Sprintf("the version with the label %q", c.Label)
	}
	return "what each request asked for"
}
