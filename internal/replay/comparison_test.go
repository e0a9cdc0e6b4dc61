package replay

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/internal/record"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/rollout"
)

func answerOf(values ...float32) *weftv1.PredictResponse {
	return &weftv1.PredictResponse{
		Outputs: map[string]*weftv1.Tensor{"y": {
			Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{2, 2},
			FloatValues: values,
		}},
		Execution: &weftv1.ExecutionInfo{ComputeUs: 3000},
	}
}

// Rows are told apart by the target's metadata of the model.
func TestComparisonKnowsRows(t *testing.T) {
	c := newComparison(&weftv1.Signature{Outputs: []*weftv1.TensorSpec{{Name: "y", BatchDim: new(int32(0))}}},
		&tolerances{})
	c.add(replayed{entry: &record.Entry{Code: "OK", Response: answerOf(1, 2, 1, 2)}, answer: answerOf(1, 2, 2, 1)})
	if o := c.outputs.Outputs()[0]; o.Rows != 2 || o.ArgmaxAgreement != 0.5 {
		t.Errorf("%+v; want 2 rows, of which the largest element is at the same place in one", o)
	}
}

// A row of one element has no largest one, in however many rows they come.
func TestOneElementHasNoArgmax(t *testing.T) {
	for _, test := range []struct {
		shape  []int64
		argmax string
	}{
		{[]int64{2, 2}, "100.00 %"}, {[]int64{4, 1}, "-"}, {[]int64{4}, "-"}, {[]int64{1, 4}, "100.00 %"}, {[]int64{}, "-"},
	} {
		c := newComparison(&weftv1.Signature{Outputs: []*weftv1.TensorSpec{{Name: "y", BatchDim: new(int32(0))}}},
			&tolerances{})
		answer := answerOf(1, 2, 3, 4)
		if len(test.shape) == 0 {
			answer = answerOf(1)
		}
		answer.GetOutputs()["y"].Shape = test.shape
		c.add(replayed{entry: &record.Entry{Code: "OK", Response: answer}, answer: answer})
		var text strings.Builder
		(&report{comparison: c}).outputs(&text)
		lines := strings.Split(strings.TrimSpace(text.String()), "\n")
		if cells := strings.Split(lines[len(lines)-1], "\t"); cells[1] != "1" || cells[6] != test.argmax {
			t.Errorf("%v: agreed %s, argmax %s; want 1, %s", test.shape, cells[1], cells[6], test.argmax)
		}
	}
}

// Answers and faults of the model count for or against a version; so do other failures, where there was an answer
// before.
func TestComparisonEvidence(t *testing.T) {
	c := newComparison(nil, &tolerances{})
	whole := answerOf(1, 2, 1, 2)
	then := func(code string, computeUs int64) *record.Entry {
		e := &record.Entry{Code: code, ComputeUs: computeUs}
		if code == "OK" {
			e.Response = whole
		}
		return e
	}
	c.add(replayed{entry: then("OK", 5000), answer: whole})
	c.add(replayed{entry: then("OK", 4000), answer: answerOf(1, 2, 1, 3)})
	c.add(replayed{entry: then("OK", 6000), err: status.Error(codes.ResourceExhausted, "full")})
	c.add(replayed{entry: then("Internal", 0), answer: whole})
	c.add(replayed{entry: then("Internal", 0), err: status.Error(codes.Internal, "NaN, as then")})
	c.add(replayed{entry: then("OK", 7000), err: status.Error(codes.Internal, "NaN")})
	c.add(replayed{entry: then("Unavailable", 0), err: status.Error(codes.Internal, "NaN")})
	c.add(replayed{entry: then("Internal", 0), err: errors.New("lost")})
	var all []string
	for _, check := range c.judge(rollout.Gate{MinRequests: 2, MinAgreement: 0.9}, "").Checks {
		all = append(all, fmt.Sprint(check.Name, " ", check.Verdict, ": ", check.Reason))
	}
	want := []string{
		"requests PROMOTE: 2 requests were answered then and now, 2 needed",
		"errors ROLLBACK: 1 of 3 requests that were answered then failed with a fault of the model now, a part of 0.3333 " +
			"against a limit of 0.01",
		"latency PROMOTE: the p95 of compute time is 3ms, and was 7ms: a ratio of 0.4286 against a limit of 1.5",
		"agreement ROLLBACK: 1 of 2 answers agreed, a part of 0.5 against at least 0.9",
		"failures ROLLBACK: 1 of 4 requests that were answered then failed otherwise (by code: Internal 1, " +
			"ResourceExhausted 1) now, a part of 0.25 against a limit of 0.135",
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("checks (-want +got):\n%s", diff)
	}
	failures := c.judge(rollout.Gate{}, "it was hurried").Checks[3]
	if failures.Verdict != rollout.Hold || !strings.Contains(failures.Reason, "it was hurried") {
		t.Errorf("where requests came faster than they were recorded: %+v", failures)
	}
}

// TestBrokenAnswers: a broken output agrees with nothing, itself included.
func TestBrokenAnswers(t *testing.T) {
	broken := answerOf(1, 2)
	broken.GetOutputs()["y"].Shape = []int64{3}
	c := newComparison(nil, &tolerances{})
	c.add(replayed{entry: &record.Entry{Code: "OK", Response: broken}, answer: broken})
	if c.compared != 1 || c.agreed != 0 || c.mismatched != 1 {
		t.Errorf("of %d answers that were compared %d agree, %d do not fit", c.compared, c.agreed, c.mismatched)
	}
}
