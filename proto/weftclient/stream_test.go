package weftclient_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/proto/weftclient"
	"github.com/weftserve/weft/runtime/catalog"
)

func streamRequest(id string) *weftclient.StreamRequest {
	q := &weftclient.StreamRequest{Request: *observation()}
	q.ID = id
	return q
}

func TestStream(t *testing.T) {
	stream, err := dial(t, nil).PredictStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wrong := streamRequest("wrong")
	wrong.Inputs = nil
	for _, q := range []*weftclient.StreamRequest{streamRequest("a"), wrong, streamRequest("b")} {
		if err := stream.Send(q); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	answers := map[string]*weftclient.StreamAnswer{}
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		answers[answer.ID] = answer
	}
	if len(answers) != 3 || status.Code(answers["wrong"].Err) != codes.InvalidArgument || answers["wrong"].Answer != nil {
		t.Fatalf("%v", answers)
	}
	for _, id := range []string{"a", "b"} {
		value, err := weftclient.Values[float32](answers[id].Answer.Outputs["value"])
		if err != nil || len(value) != 1 || value[0] != 10 || answers[id].Err != nil || answers[id].Answer.ID != id {
			t.Errorf("%s: %v, %v, %+v", id, value, err, answers[id])
		}
	}
}

// TestStreamTimes: a newer observation takes the place of one that waits, and a timeout ends another.
func TestStreamTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := dial(t, func(ctx context.Context, call *catalog.Call) error {
			ctx, cancel := context.WithDeadline(ctx, call.Limit)
			defer cancel()
			<-ctx.Done() // as one that waits in a queue
			return context.Cause(ctx)
		})
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := client.PredictStream(ctx)
		if err != nil {
			t.Fatal(err)
		}
		old, young := streamRequest("old"), streamRequest("young")
		old.Episode, young.Episode = "robot-7", "robot-7"
		old.Timeout, young.Timeout, young.Supersede = time.Minute, 20*time.Millisecond, true
		for _, q := range []*weftclient.StreamRequest{old, young} {
			if err := stream.Send(q); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		answer, err := stream.Recv()
		e, is := errors.AsType[*weftclient.Error](answer.Err)
		if err != nil || answer.ID != "old" || !is || e.Code != codes.Aborted || e.Reason != "SUPERSEDED" {
			t.Errorf("%+v, %v", answer, err)
		}
		answer, err = stream.Recv()
		if err != nil || answer.ID != "young" || status.Code(answer.Err) != codes.DeadlineExceeded {
			t.Errorf("%+v, %v", answer, err)
		}
		cancel()
		if _, err := stream.Recv(); status.Code(err) != codes.Canceled {
			t.Errorf("%v after the context has ended", err)
		}
	})
}
