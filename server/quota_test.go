package server_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/internal/race"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/sharedsched"
)

// limited returns access control with one identity that may predict, and its quota.
func limited(t *testing.T, q access.Quota) *servertest.Control {
	t.Helper()
	return servertest.NewControl(t, limitedBy(q))
}

func limitedBy(q access.Quota) *access.Config {
	return &access.Config{
		Roles:      map[string]access.Role{"all": {Predict: []string{"*"}, Observe: []string{"*"}}},
		Identities: []access.Entry{{Name: "one", Weight: 5, Roles: []string{"all"}, Quota: q}},
	}
}

// inFlight returns what the identity has in the server.
func inFlight(d *servertest.Control) (requests, bytes int64) {
	return d.Policy().Identify([]access.Claim{{Kind: access.Token, Value: "one"}}).InFlight()
}

// exceeded returns the quota that an error says is used up, "" for another error.
func exceeded(err error) string {
	for _, d := range status.Convert(err).Details() {
		if info, is := d.(*errdetails.ErrorInfo); is && info.GetReason() == "QUOTA_EXCEEDED" {
			return info.GetMetadata()["quota"]
		}
	}
	return ""
}

// broken is a message that cannot be read.
type broken struct{}

func (broken) Marshal(any) ([]byte, error) { return []byte{0xff, 0xff, 0xff}, nil }
func (broken) Unmarshal([]byte, any) error { return nil }
func (broken) Name() string                { return "proto" }

// TestQuotasOfCallers: 64 callers send requests that are answered, panic, are cancelled, cannot be read or come by
// streams, in an order that a seed decides. There are never more in the pipeline than the quota has, and in the end
// everything is given back.
func TestQuotasOfCallers(t *testing.T) {
	const most = 8
	message := int64(proto.Size(servertest.Observation("1234567")))
	for name, q := range map[string]access.Quota{
		"requests": {Requests: most}, "bytes": {Bytes: most * message}, "both": {Requests: most, Bytes: most * message},
	} {
		t.Run(name, func(t *testing.T) {
			control := limited(t, q)
			h, _, _ := guarded(t, control)
			var inside, peak, ran, ended atomic.Int64
			h.Run = func(ctx context.Context, call *catalog.Call) error {
				before := ended.Load()
				n := inside.Add(1)
				defer func() {
					ended.Add(1)
					inside.Add(-1)
				}()
				ran.Add(1)
				for high := peak.Load(); n > high && !peak.CompareAndSwap(high, n); high = peak.Load() {
				}
				// Unless one has ended since they were counted.
				if r, _ := inFlight(control); r < n && q.Requests > 0 && ended.Load() == before {
					t.Errorf("%d requests run, and %d count", n, r)
				}
				if call.Priority == sharedsched.Sheddable {
					panic("a bug")
				}
				for range 20 {
					select {
					case <-ctx.Done():
						return context.Cause(ctx)
					default:
						runtime.Gosched()
					}
				}
				return servertest.RunPolicy(ctx, call)
			}
			var ends sync.Map
			count := func(what string) {
				n, _ := ends.LoadOrStore(what, new(atomic.Int64))
				n.(*atomic.Int64).Add(1)
			}
			var wg sync.WaitGroup
			for caller := range 64 {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(uint64(caller), 42))
					for range map[bool]int{false: 12, true: 3}[race.Enabled] {
						how := r.IntN(5)
						count(fmt.Sprint(how, " ", kindOf(oneCall(as(t.Context(), "one"), h, how))))
					}
				})
			}
			wg.Wait()
			if err := h.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			if p := peak.Load(); p > most || p < 2 {
				t.Errorf("at most %d requests ran at once, of a quota of %d", p, most)
			}
			h.GRPC.GracefulStop()
			if r, b := inFlight(control); r != 0 || b != 0 {
				t.Errorf("%d requests and %d bytes were not given back", r, b)
			}
			text := ""
			ends.Range(func(what, n any) bool {
				text += fmt.Sprintf("%v: %d; ", what, n.(*atomic.Int64).Load())
				return true
			})
			t.Logf("%d ran, at most %d at once; %s", ran.Load(), peak.Load(), text)
			if control.Refused("one", "QUOTA_REQUESTS_IN_FLIGHT")+control.Refused("one", "QUOTA_BYTES_IN_FLIGHT") == 0 {
				t.Error("nothing was refused")
			}
		})
	}
}

// kindOf is the quota that an error is about, else its code.
func kindOf(err error) string {
	if quota := exceeded(err); quota != "" {
		return quota
	}
	return status.Code(err).String()
}

// oneCall makes a call: one that is answered, panics, is cancelled, cannot be read, or comes by a stream.
func oneCall(ctx context.Context, h *servertest.House, how int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	q := servertest.Observation("1234567")
	switch how {
	case 1:
		q.Priority = weftv1.Priority_PRIORITY_SHEDDABLE
		q.RequestId = "12345" // as many bytes
	case 2:
		go cancel()
	case 3:
		return h.Conn.Invoke(ctx, weftv1.PredictionService_Predict_FullMethodName, q, &weftv1.PredictResponse{},
			grpc.ForceCodec(broken{}))
	case 4:
		stream, err := h.Predictions.PredictStream(ctx)
		if err != nil {
			return err
		}
		q.RequestId = "123"
		for i := range 3 {
			q := proto.Clone(q).(*weftv1.PredictRequest)
			q.RequestId = strconv.Itoa(10 + i)
			if i == 1 {
				q.Priority = weftv1.Priority_PRIORITY_SHEDDABLE // panics
			}
			if err := stream.Send(&weftv1.PredictStreamRequest{Request: q}); err != nil {
				return err
			}
		}
		if err := stream.CloseSend(); err != nil {
			return err
		}
		var last error
		for range 3 {
			answer, err := stream.Recv()
			if err != nil {
				return err
			}
			if e := status.FromProto(answer.GetError()).Err(); e != nil {
				last = e
			}
		}
		return last
	}
	_, err := h.Predictions.Predict(ctx, q)
	return err
}

// TestQuotaErrors say which quota, and when to try again.
func TestQuotaErrors(t *testing.T) {
	control := limited(t, access.Quota{Requests: 1})
	h, _, _ := guarded(t, control)
	gate := servertest.NewGated()
	h.Run = gate.Run
	ctx := as(t.Context(), "one")
	stream := h.OpenStream(ctx, t)
	stream.Request("a")
	call := <-gate.Entered
	if call == nil {
		t.Fatal("no call")
	}
	var trailer metadata.MD
	_, err := h.Predictions.Predict(ctx, servertest.Observation(""), grpc.Trailer(&trailer))
	servertest.WantCode(t, err, codes.ResourceExhausted,
		"identity one has used up its quota requests-in-flight, which is 1; try again when others")
	if pushback := trailer.Get("grpc-retry-pushback-ms"); len(pushback) != 1 || pushback[0] != "100" {
		t.Errorf("pushback %q", pushback)
	}
	var retry *errdetails.RetryInfo
	for _, d := range status.Convert(err).Details() {
		if r, is := d.(*errdetails.RetryInfo); is {
			retry = r
		}
	}
	if retry.GetRetryDelay().AsDuration() <= 0 {
		t.Errorf("retry %v", retry)
	}
	// On a stream one request is refused, and the stream goes on.
	stream.Request("b")
	stream.Want("b: ResourceExhausted identity one has used up its quota requests-in-flight, which is 1; try again when " +
		"others of its requests were answered, or raise it in the access file")
	gate.Release <- struct{}{}
	stream.Want("a: version 2")
	// Anybody who has an answer may send the next request at once.
	for i := range 50 {
		stream.Request(strconv.Itoa(i))
		<-gate.Entered
		gate.Release <- struct{}{}
		stream.Want(fmt.Sprintf("%d: version 2", i))
	}
	stream.End()

	control.Set(t, limitedBy(access.Quota{Bytes: 10}))
	_, err = h.Predictions.Predict(ctx, servertest.Observation(""), grpc.Trailer(&trailer))
	servertest.WantCode(t, err, codes.ResourceExhausted, "its quota bytes-in-flight, which is 10, and this request takes")
	if pushback := trailer.Get("grpc-retry-pushback-ms"); len(pushback) != 1 || pushback[0] != "-1" {
		t.Errorf("pushback %q", pushback)
	}
	control.Set(t, limitedBy(access.Quota{Rate: 1e-3, Burst: 1}))
	go func() {
		<-gate.Entered
		gate.Release <- struct{}{}
	}()
	if _, err := h.Predictions.Predict(ctx, servertest.Observation("")); err != nil {
		t.Error(err)
	}
	_, err = h.Predictions.Predict(ctx, servertest.Observation(""))
	servertest.WantCode(t, err, codes.ResourceExhausted, "its quota rate, which is 0.001; try again in 16m")
	if r, b := inFlight(control); r != 0 || b != 0 {
		t.Errorf("%d requests and %d bytes were not given back", r, b)
	}
}

// TestBytesOfCompressedMessages count as they are decompressed.
func TestBytesOfCompressedMessages(t *testing.T) {
	control := limited(t, access.Quota{Bytes: 4000})
	h, _, _ := guarded(t, control)
	q := servertest.Observation("", make([]float32, 4*1000)...)
	data, err := proto.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) < 8000 {
		t.Fatalf("%d bytes", len(data))
	}
	_, err = h.Predictions.Predict(as(t.Context(), "one"), q, grpc.UseCompressor(gzip.Name))
	servertest.WantCode(t, err, codes.ResourceExhausted, "bytes-in-flight")
	if r, b := inFlight(control); r != 0 || b != 0 {
		t.Errorf("%d requests and %d bytes were not given back", r, b)
	}
}

// TestPrioritiesOfCallers: a request that names too high a one is denied; one that names none gets what it may have.
func TestPrioritiesOfCallers(t *testing.T) {
	control := limited(t, access.Quota{MostPriority: sharedsched.SheddablePlus})
	h, _, _ := guarded(t, control)
	var got []sharedsched.Priority
	h.Run = func(ctx context.Context, call *catalog.Call) error {
		got = append(got, call.Priority)
		return servertest.RunPolicy(ctx, call)
	}
	ctx := as(t.Context(), "one")
	for p, want := range map[weftv1.Priority]string{
		weftv1.Priority_PRIORITY_UNSPECIFIED:    "",
		weftv1.Priority_PRIORITY_SHEDDABLE:      "",
		weftv1.Priority_PRIORITY_SHEDDABLE_PLUS: "",
		weftv1.Priority_PRIORITY_CRITICAL: "identity one may not ask for priority critical; sheddable-plus is the " +
			"highest",
		weftv1.Priority_PRIORITY_CRITICAL_PLUS: "may not ask for priority critical-plus",
	} {
		got = nil
		q := servertest.Observation("id")
		q.Priority = p
		_, err := h.Predictions.Predict(ctx, q)
		if want == "" {
			if err != nil || len(got) != 1 || p == 0 && got[0] != sharedsched.SheddablePlus {
				t.Errorf("%v runs as %v: %v", p, got, err)
			}
			continue
		}
		servertest.WantCode(t, err, codes.PermissionDenied, want)
		stream := h.OpenStream(ctx, t)
		stream.Send(&weftv1.PredictStreamRequest{Request: q})
		_, err = stream.RPC.Recv()
		if err != nil {
			t.Error(err)
		}
		stream.End()
	}
}
