// Package replay sends recorded requests again, to another version, and judges that version by how its answers compare
// with the recorded ones: `weft replay`.
//
// # Steps
//
//   - A recording reads the files up to the first request of the model. The target is asked about the model, so that a
//     mistake in the flags is reported before anything is sent.
//   - The files are read again from the beginning. Requests of other models and versions are left out, and the others
//     are put into the order of their arrival: files have the order of the answers.
//   - A sender sends each request when it is due by the speed, with at most --concurrency of them in flight. Steps of
//     an episode whose state a server keeps go one after the other.
//   - A comparison takes each request that has ended, and adds up how it ended, how its outputs differ and where its
//     time went. It keeps no request.
//   - A report asks the gate and prints everything.
//
// # Verdict
//
// The worst check decides. Each compares what happened now with what was recorded:
//
//   - requests: too few answers to compare hold the version.
//   - errors: more faults of the model than allowed roll it back.
//   - latency: a higher 95th percentile of the compute time rolls it back, if chance does not explain it.
//   - agreement: too few equal answers roll it back. It is left out unless --min-agreement asks for it.
//   - failures: more other failures than were recorded, and than allowed, roll it back.
//   - compared: too large a part of the recording without a comparison holds the version.
//
// A replay that sends faster than was recorded proves nothing about latency and capacity. These checks then only hold.
package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/internal/certs"
	"github.com/weftserve/weft/internal/record"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/rollout"
)

// VerdictError is a gate's verdict that is not PROMOTE.
type VerdictError struct{ Verdict rollout.Verdict }

func (e *VerdictError) Error() string { return "the gate says " + e.Verdict.String() }

// Run replays until ctx ends, and prints the report to out, and progress and complaints to errs. A verdict that is not
// PROMOTE is a *VerdictError.
func Run(ctx context.Context, c *Options, out, errs io.Writer) error {
	if err := c.check(); err != nil {
		return err
	}
	options, err := c.DialOptions(c.Target)
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient(c.Target,
		append(options, grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)))...)
	if err != nil {
		return fmt.Errorf("--target %s: %w", c.Target, err)
	}
	defer conn.Close()
	return c.replay(ctx, out, errs, weftv1.NewPredictionServiceClient(conn), weftv1.NewModelServiceClient(conn))
}

// replay sends all chosen requests to a server and reports. It reads the recording twice: up to the first request, to
// ask the server about its model before anything is sent, and then from the beginning.
func (c *Options) replay(ctx context.Context, out, errs io.Writer, to weftv1.PredictionServiceClient,
	catalog weftv1.ModelServiceClient,
) error {
	reader, err := record.Open(c.Files...)
	if err != nil {
		return err
	}
	r := &recording{reader: reader, model: c.Model, version: c.RecordedVersion, complain: errs}
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
	kept, err := c.askKept(ctx, catalog, facts)
	if err != nil {
		return err
	}
	// The signature says which dimension of each output counts rows.
	found := newComparison(facts.GetSignature(), &c.tolerances)
	fmt.Fprintf(errs, "replaying %d files, speed %v\n", len(reader.Files()), c.Speed)
	told := newProgress(errs)
	// From now on complaints must not break into the line of progress.
	r.complain = told
	send := &sender{
		speed: c.Speed, concurrency: c.Concurrency, timeout: time.Duration(c.Timeout), maxGap: time.Duration(c.MaxGap),
		choose: func(q *weftv1.PredictRequest) {
			told.sending()
			c.choose(q)
		},
		done: func(q replayed) {
			found.add(q)
			told.done(q.err != nil)
		},
		predict: func(ctx context.Context, q *weftv1.PredictRequest) (*weftv1.PredictResponse, error) {
			return to.Predict(ctx, q)
		},
		episodes: episodes{kept: kept, prefix: newPrefix()},
	}
	start := time.Now()
	err = send.run(ctx, inOrder(told.reading(reader, r.entries()), lookAhead, lookAheadBytes))
	told.Close()
	if err != nil {
		return err
	}
	said := &report{
		recording: r, comparison: found, sender: send, took: time.Since(start), asked: c.asked(),
		target: c.Target,
	}
	said.judge(c.gate(), c.MaxUncompared)
	if err := said.print(out); err != nil {
		return err
	}
	// An interrupted replay has a report, but of the beginning of the recording only.
	if ctx.Err() != nil {
		return errors.New("interrupted before the recording ended; the verdict does not count")
	}
	if said.verdict.Verdict != rollout.Promote {
		return &VerdictError{said.verdict.Verdict}
	}
	return nil
}

// askTarget asks the target about the model, so that a mistake in the flags is reported before anything is sent. It
// changes the request to ask for the chosen version.
func (c *Options) askTarget(ctx context.Context, to weftv1.PredictionServiceClient,
	q *weftv1.PredictRequest,
) (*weftv1.GetModelMetadataResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c.choose(q)
	facts, err := to.GetModelMetadata(ctx, &weftv1.GetModelMetadataRequest{Model: q.GetModel()},
		grpc.WaitForReady(true))
	if status.Code(err) == codes.DeadlineExceeded {
		do := certs.Advice(err.Error())
		if do == "" {
			do = "name the --listen address of one that runs"
		}
		return nil, fmt.Errorf("--target %s: no server answers: %w; %s", c.Target, err, do)
	}
	if err != nil {
		return nil, fmt.Errorf("--target %s: ask for %s: %w", c.Target, c.asked(), err)
	}
	return facts, nil
}

// askKept asks the target which inputs a version keeps between the requests of an episode.
func (c *Options) askKept(ctx context.Context, catalog weftv1.ModelServiceClient,
	of *weftv1.GetModelMetadataResponse,
) (kept []*weftv1.TensorSpec, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	about, err := catalog.GetModel(ctx, &weftv1.GetModelRequest{Name: of.GetModel().GetName()})
	switch status.Code(err) {
	case codes.OK:
	case codes.PermissionDenied, codes.Unimplemented: // what the recording says of its own episodes is known
		return nil, nil
	default:
		return nil, fmt.Errorf("--target %s: ask for %s: %w", c.Target, c.asked(), err)
	}
	for _, v := range about.GetModel().GetVersions() {
		if v.GetVersion() != of.GetModel().GetVersion() {
			continue
		}
		for _, spec := range of.GetSignature().GetInputs() {
			if slices.ContainsFunc(v.GetKeptInputs(), func(in *weftv1.KeptInput) bool {
				return in.GetInput() == spec.GetName()
			}) {
				kept = append(kept, spec)
			}
		}
	}
	return kept, nil
}
