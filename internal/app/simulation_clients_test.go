package app

import (
	"context"
	"errors"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// clientCounts are the counts of clients: answers by method, model and code, as the metrics page names them.
type clientCounts struct {
	mu     sync.Mutex
	counts sums // guarded by mu
	// gaveUp is how many calls ended by their own context: whether they reached the server their client cannot know.
	// notReached is how many did not, because the connection closed.
	gaveUp, notReached int // guarded by mu
}

func (a *clientCounts) count(method, model string, code codes.Code) {
	if _, known := accountedModels[model]; !known {
		model = ""
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts[of(method, model, code.String())]++
}

func (a *clientCounts) giveUp(calls int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gaveUp += calls
}

// compare wants a page of a server that is quiet to have what its clients have counted, and beside it only calls that
// they gave up.
func (a *clientCounts) compare(t *testing.T, page map[string]*dto.MetricFamily) {
	t.Helper()
	got := by(page, "weft_requests_total", "method", "model", "code")
	gone := 0 // calls whose end no client heard
	for _, key := range slices.Sorted(maps.Keys(got)) {
		missed := got[key] - a.counts[key]
		ofImpatient := strings.Contains(key, ` "impatient" `) ||
			// their messages did not come
			key == of("Predict", "", "Canceled") || key == of("Predict", "", "DeadlineExceeded")
		if missed != 0 && !ofImpatient || missed < 0 {
			t.Errorf("%d requests ended as %s, the clients counted %d", got[key], key, a.counts[key])
		}
		gone += missed
	}
	for key, n := range a.counts {
		if got[key] == 0 {
			t.Errorf("the clients counted %d times %s, of which there is nothing on the page", n, key)
		}
	}
	if gone > a.gaveUp {
		t.Errorf("%d requests ended that nobody has counted, %d were given up", gone, a.gaveUp)
	}
	t.Logf("%d requests in %d ways, %d of them given up by their callers, %d refused by closed connections", total(got),
		len(got), gone, a.notReached)
}

// client is one caller, with its own dice.
type client struct {
	*clientCounts
	conn *grpc.ClientConn
	rng  *rand.Rand
}

// rawOrProto is the codec of a client that may also send bytes that are no message.
type rawOrProto struct{}

func (rawOrProto) Name() string { return "proto" }

func (rawOrProto) Marshal(v any) ([]byte, error) {
	if raw, is := v.([]byte); is {
		return raw, nil
	}
	return proto.Marshal(v.(proto.Message))
}

func (rawOrProto) Unmarshal(data []byte, v any) error {
	return proto.Unmarshal(data, v.(proto.Message))
}

var garbage = []byte{0xff, 0xff, 0xff}

// request makes up a request for a model, mostly a good one.
func (c *client) request(model string) *weftv1.PredictRequest {
	rows := 1 + c.rng.IntN(4)
	if c.rng.IntN(8) == 0 {
		rows = 9 + c.rng.IntN(14) // more than a batch; of held, perhaps more than it takes
	}
	values := make([]float32, 4*rows)
	if model == "poisoned" && c.rng.IntN(6) == 0 {
		values[c.rng.IntN(len(values))] = float32(math.NaN())
	}
	input := "x"
	if model == "policy" {
		input = "observation"
	}
	req := &weftv1.PredictRequest{
		Model: &weftv1.ModelSpec{Name: model},
		Inputs: map[string]*weftv1.Tensor{input: {
			Dtype: weftv1.DataType_DATA_TYPE_FP32,
			Shape: []int64{int64(rows), 4}, FloatValues: values,
		}},
		Priority:  weftv1.Priority(c.rng.IntN(5)),
		EpisodeId: "e" + strconv.Itoa(c.rng.IntN(8)), EndOfEpisode: c.rng.IntN(4) == 0,
	}
	if c.rng.IntN(3) == 0 {
		req.TargetLatency = durationpb.New(time.Duration(c.rng.IntN(20)) * time.Millisecond)
	}
	switch c.rng.IntN(24) { // the fault of the request
	case 0:
		req.Inputs[input].Shape[1] = 5
	case 1:
		req.Inputs[input].Dtype = weftv1.DataType_DATA_TYPE_INT64
	case 2:
		req.Inputs = nil
	case 3:
		req.Outputs = []string{"nonesuch"}
	case 4:
		req.Priority = 99
	case 5:
		req.Model.VersionChoice = &weftv1.ModelSpec_Version{Version: 77}
	case 6:
		req.Model.VersionChoice = &weftv1.ModelSpec_Label{Label: "nonesuch"}
	case 7:
		req.EpisodeId = string(make([]byte, 300))
	}
	return req
}

// model chooses the model to ask, also one that is not there or has failed.
func (c *client) model() string {
	names := []string{
		"walker", "walker", "poisoned", "narrow", "patient", "held", "policy", "unloadable", "nonesuch",
		"",
	}
	return names[c.rng.IntN(len(names))]
}

// unary makes a call and waits for its end, however long it takes.
func (c *client) unary(ctx context.Context) {
	model := c.model()
	req := any(c.request(model))
	switch c.rng.IntN(30) {
	case 0:
		model, req = "", garbage
	case 1:
		model, req = "", make([]byte, 300<<10) // more than the server reads
	}
	err := c.conn.Invoke(ctx, weftv1.PredictionService_Predict_FullMethodName, req, &weftv1.PredictResponse{},
		grpc.ForceCodec(rawOrProto{}))
	c.count("Predict", model, status.Code(err))
}

// impatient makes a call and may not wait for its end.
func (c *client) impatient(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(c.rng.IntN(8000))*time.Microsecond)
	defer cancel()
	_, err := weftv1.NewPredictionServiceClient(c.conn).Predict(ctx, c.request("impatient"))
	if code := status.Code(err); code != codes.DeadlineExceeded && code != codes.Canceled {
		c.count("Predict", "impatient", code)
		return
	}
	c.giveUp(1)
}

// use makes a call in one of the ways of clients.
func (c *client) use(ctx context.Context, t *testing.T) {
	switch c.rng.IntN(6) {
	case 0:
		if err := c.stream(ctx); err != nil {
			t.Errorf("a stream ended with %v", err)
		}
	case 1:
		c.impatient(ctx)
	case 2:
		c.leave(ctx)
	default:
		c.unary(ctx)
	}
}

// leave makes a call, or some on a stream, and leaves before all of them were answered.
func (c *client) leave(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	leaving := time.AfterFunc(time.Duration(c.rng.IntN(20_000))*time.Microsecond, cancel)
	defer leaving.Stop()
	service := weftv1.NewPredictionServiceClient(c.conn)
	if c.rng.IntN(2) == 0 {
		_, err := service.Predict(ctx, c.request("impatient"))
		if code := status.Code(err); code == codes.Canceled {
			c.giveUp(1)
		} else {
			c.count("Predict", "impatient", code)
		}
		return
	}
	n := 0
	defer func() { c.giveUp(n) }()
	s, err := service.PredictStream(ctx)
	for ; err == nil && n < 6; n++ {
		m := &weftv1.PredictStreamRequest{Request: c.request("impatient"), Supersede: c.rng.IntN(2) == 0}
		m.Request.RequestId = strconv.Itoa(n)
		if c.rng.IntN(2) == 0 {
			m.Timeout = durationpb.New(time.Duration(1+c.rng.IntN(10)) * time.Millisecond)
		}
		err = s.Send(m)
	}
	for err == nil {
		var answer *weftv1.PredictStreamResponse
		if answer, err = s.Recv(); err == nil {
			c.count("PredictStream", "impatient", codes.Code(answer.GetError().GetCode()))
			n--
		}
	}
}

// hammer makes calls until the server is not there any more, or ctx ends. Requests that never reached it are counted
// apart: the server says when to try again, the connection does not.
func (c *client) hammer(ctx context.Context) {
	for ctx.Err() == nil {
		_, err := weftv1.NewPredictionServiceClient(c.conn).Predict(ctx, c.request("walker"), grpc.WaitForReady(false))
		if status.Code(err) == codes.Unavailable && !hasRetryInfo(err) {
			c.mu.Lock()
			c.notReached++
			c.mu.Unlock()
			return
		}
		c.count("Predict", "walker", status.Code(err))
	}
}

func hasRetryInfo(err error) bool {
	for _, detail := range status.Convert(err).Details() {
		if _, is := detail.(*errdetails.RetryInfo); is {
			return true
		}
	}
	return false
}

// stream sends requests for one model on a stream, some superseding others, and reads an answer to each. At the
// end it may send bytes that are no message, which ends the stream.
func (c *client) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	model := c.model()
	s, err := weftv1.NewPredictionServiceClient(c.conn).PredictStream(ctx, grpc.ForceCodec(rawOrProto{}))
	if err != nil {
		return err
	}
	n := 1 + c.rng.IntN(12)
	for i := range n {
		m := &weftv1.PredictStreamRequest{Request: c.request(model), Supersede: c.rng.IntN(2) == 0}
		m.Request.RequestId = strconv.Itoa(i)
		switch c.rng.IntN(8) {
		case 0:
			m.Request.RequestId = "" // is refused
		case 1:
			m.Request.RequestId = "0" // perhaps twice at once
		case 2:
			m.Timeout = durationpb.New(-time.Second)
		case 3, 4:
			m.Timeout = durationpb.New(time.Duration(1+c.rng.IntN(10)) * time.Millisecond)
		}
		if err := s.Send(m); err != nil {
			return err
		}
	}
	for range n {
		answer, err := s.Recv()
		if err != nil {
			return err
		}
		c.count("PredictStream", model, codes.Code(answer.GetError().GetCode()))
	}
	if c.rng.IntN(4) > 0 {
		if err := s.CloseSend(); err != nil {
			return err
		}
		if _, err := s.Recv(); !errors.Is(err, io.EOF) {
			return err
		}
		return nil
	}
	bad := garbage
	if c.rng.IntN(2) == 0 {
		bad = make([]byte, 300<<10)
	}
	if err := s.SendMsg(bad); err != nil {
		return err
	}
	_, err = s.Recv()
	c.count("PredictStream", "", status.Code(err))
	return nil
}
