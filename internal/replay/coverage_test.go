package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/internal/record"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/rollout"
)

func TestCoverage(t *testing.T) {
	for _, tt := range []struct {
		c      coverage
		want   rollout.Verdict
		reason string
	}{
		{
			coverage{sent: 1000},
			rollout.Promote,
			"0 of 1000 requests could not be compared: a part of 0 against a limit of 0.1",
		},
		{
			coverage{sent: 1000, failedThen: 107},
			rollout.Hold,
			"107 of 1000 requests could not be compared (107 failed when they were recorded): a part of 0.107 " +
				"against " +
				"a limit of 0.1",
		},
		{
			coverage{sent: 900, withoutInputs: 60, notRecorded: 40, failedThen: 7, mismatched: 3},
			rollout.Hold,
			"110 of 1000 requests could not be compared (7 failed when they were recorded, 60 were recorded without " +
				"their inputs, 40 were not recorded, 3 have outputs of other names, types or shapes now): a part of " +
				"0.11 against a limit of 0.1",
		},
		{
			coverage{sent: 99, withoutInputs: 1, damaged: 2},
			rollout.Promote,
			"1 of 100 requests could not be compared (1 were recorded without their inputs): a part of 0.01 against " +
				"a " +
				"limit of 0.1, without what is lost in 2 damaged files",
		},
	} {
		if got := tt.c.check(0.1); got.Verdict != tt.want || got.Reason != tt.reason {
			t.Errorf("%v, %s\nwant %v, %s", got.Verdict, got.Reason, tt.want, tt.reason)
		}
	}
}

// TestReplayOfRequestsWithoutInputs: requests that have inputs are replayed, and the verdict names the others.
func TestReplayOfRequestsWithoutInputs(t *testing.T) {
	whole, hashed := recordSome(t, record.Config{}, 150, "walker"),
		recordSome(t, record.Config{Inputs: record.InputsHash}, 50, "walker")
	d := &doubler{compute: asRecorded}
	out, _, err := runReplay(asGiven(d.serve(t), hashed, whole))
	if verdict, ok := errors.AsType[*VerdictError](err); !ok || verdict.Verdict != rollout.Hold ||
		len(d.requests) != 150 {
		t.Errorf("%v, %d requests came; want HOLD after 150", err, len(d.requests))
	}
	for _, want := range []string{
		`^50 requests were recorded without their inputs, and not sent$`,
		`^compared +HOLD +50 of 200 requests could not be compared \(50 were recorded without`,
	} {
		if !regexp.MustCompile("(?m)" + want).MatchString(out) {
			t.Errorf("no line matches %s:\n%s", want, out)
		}
	}
}

// scripted is a client whose requests end as was decided before, by request_id.
type scripted struct {
	weftv1.PredictionServiceClient
	ends map[string]codes.Code
}

func (*scripted) GetModelMetadata(ctx context.Context, q *weftv1.GetModelMetadataRequest,
	_ ...grpc.CallOption,
) (*weftv1.GetModelMetadataResponse, error) {
	return (&doubler{}).GetModelMetadata(ctx, q)
}

func (s *scripted) Predict(_ context.Context, q *weftv1.PredictRequest,
	_ ...grpc.CallOption,
) (*weftv1.PredictResponse, error) {
	if code := s.ends[q.GetRequestId()]; code != codes.OK {
		return nil, status.Error(code, "as decided")
	}
	return doubled(q, 0, asRecorded), nil
}

// TestReplaysOfMixturesOfCodes generates recordings, and the ends of their requests now. Every code is in the report,
// and none is promoted in which more fails than failed before, or too much has nothing to compare with.
func TestReplaysOfMixturesOfCodes(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 5 seconds")
	}
	failures := []codes.Code{
		codes.DeadlineExceeded, codes.ResourceExhausted, codes.Unavailable, codes.Canceled, codes.InvalidArgument,
		codes.NotFound,
		codes.FailedPrecondition, codes.Aborted, codes.Unimplemented, codes.Internal, codes.Unknown,
	}
	blame := func(c codes.Code) (fault, overload bool) {
		switch c { //nolint:exhaustive // the others are neither
		case codes.Internal, codes.Unknown:
			return true, false
		case codes.DeadlineExceeded, codes.ResourceExhausted, codes.Unavailable:
			return false, true
		}
		return false, false
	}
	verdicts := map[rollout.Verdict]int{}
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 41))
		kinds := failures[:1+r.IntN(len(failures))]
		draw := func(rate float64) codes.Code {
			if r.Float64() < rate {
				return kinds[r.IntN(len(kinds))]
			}
			return codes.OK
		}
		rateThen := 0.3 * r.Float64() * r.Float64() * r.Float64()
		rateNow := 1.5*rateThen*r.Float64() + 0.2*r.Float64()*float64(r.IntN(2))
		n := 150 + r.IntN(400)
		dir := t.TempDir()
		w, err := record.New(record.Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		client := &scripted{ends: map[string]codes.Code{}}
		var answeredThen, failedThen, faultsThen, failed, overload, faults, answered int
		then, now := map[codes.Code]int{}, map[codes.Code]int{}
		for i := range n {
			q, before, after := recordedRequest("walker", i), draw(rateThen), draw(rateNow)
			e := record.Entry{At: time.UnixMicro(int64(i)), Request: q, Code: before.String(), Version: 1}
			if before == codes.OK {
				e.Response = doubled(q, 0, asRecorded)
			}
			w.Record(e)
			client.ends[q.GetRequestId()] = after
			then[before]++
			now[after]++
			fault, load := blame(after)
			switch wasFault, _ := blame(before); {
			case before == codes.OK:
				answeredThen++
				if after != codes.OK && !fault {
					failed++
					if load {
						overload++
					}
				}
			case wasFault:
				faultsThen++
			default:
				failedThen++
			}
			if fault {
				faults++
			}
			if after == codes.OK {
				answered++
			}
		}
		if err := w.Close(t.Context()); err != nil || w.Stats().Written != int64(n) {
			t.Fatal(err, w.Stats())
		}
		var out, complaints bytes.Buffer
		c := asGiven("nowhere", dir)
		if seed%2 == 0 {
			c.Speed = 1
		}
		err = c.replay(t.Context(), &out, &complaints, client, untold{})
		verdict := rollout.Promote
		if v, ok := errors.AsType[*VerdictError](err); ok {
			verdict = v.Verdict
		} else if err != nil {
			t.Fatal(err)
		}
		verdicts[verdict]++
		bound := float64(failedThen)/float64(n) + 0.01
		part := float64(failed) / float64(answeredThen)
		bad := part > bound || float64(faults) > 0.01*float64(faults+answered) ||
			float64(n-answeredThen) > 0.1*float64(n)
		if bad != (verdict != rollout.Promote) {
			t.Errorf("seed %d: %v; of %d requests %d failed then, of the others %d now, and %d of faults\n%s", seed,
				verdict, n, n-answeredThen, failed, faults, &out)
		}
		if c.Speed == 0 && verdict == rollout.Rollback && float64(failed-overload)/float64(answeredThen) <= 0.01 &&
			float64(faults) <= 0.01*float64(faults+answered) {
			t.Errorf("seed %d: ROLLBACK for overload by a replay at full speed\n%s", seed, &out)
		}
		for _, code := range append(failures, codes.OK) {
			row := regexp.MustCompile(fmt.Sprintf(`(?m)^%v +%d +%d$`, code, then[code], now[code]))
			if then[code]+now[code] > 0 && !row.Match(out.Bytes()) {
				t.Errorf("seed %d: no line %s\n%s", seed, row, &out)
			}
		}
	}
	t.Log(verdicts)
	for _, v := range []rollout.Verdict{rollout.Promote, rollout.Hold, rollout.Rollback} {
		if verdicts[v] < 5 {
			t.Errorf("%v came only %d times", v, verdicts[v])
		}
	}
}

// untold is a target that does not tell what it keeps.
type untold struct{ weftv1.ModelServiceClient }

func (untold) GetModel(context.Context, *weftv1.GetModelRequest, ...grpc.CallOption) (*weftv1.GetModelResponse, error) {
	return nil, status.Error(codes.PermissionDenied, "observe")
}
