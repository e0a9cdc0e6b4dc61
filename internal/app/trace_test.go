package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	otelcodes "go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weftserve/weft/internal/telemetry"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/proto/gen/inference"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// spans is an exporter that keeps what is sent. The servers of tests that ask for it all have it.
type spans struct {
	mu  sync.Mutex
	got []tracetest.SpanStub // guarded by mu
}

var kept spans

// registerExporters gives exporters of tests the names kept and nowhere.
var registerExporters = sync.OnceFunc(func() {
	autoexport.RegisterSpanExporter("kept", func(context.Context) (sdktrace.SpanExporter, error) { return &kept, nil })
	autoexport.RegisterSpanExporter("nowhere", func(context.Context) (sdktrace.SpanExporter, error) {
		return nowhere{}, nil
	})
})

// traceInto has the servers that are started next trace their requests, by a sampler.
func traceInto(t *testing.T, sampler string) {
	t.Helper()
	registerExporters()
	t.Setenv("OTEL_TRACES_EXPORTER", "kept")
	t.Setenv("OTEL_TRACES_SAMPLER", sampler)
	kept.got = nil
}

// ExportSpans implements sdktrace.SpanExporter.
func (s *spans) ExportSpans(_ context.Context, more []sdktrace.ReadOnlySpan) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, tracetest.SpanStubsFromReadOnlySpans(more)...)
	return nil
}

// Shutdown implements sdktrace.SpanExporter.
func (*spans) Shutdown(context.Context) error { return nil }

// serveTraced serves models and has their requests traced. The function that it returns stops the server, and returns
// the spans that were sent.
func serveTraced(t *testing.T, sampler string, manifests map[string]string) (*running, func() []tracetest.SpanStub) {
	t.Helper()
	traceInto(t, sampler)
	r := serve(t, manifests)
	r.awaitReady(t)
	return r, func() []tracetest.SpanStub {
		r.conn.Close()
		r.stop()
		r.result <- <-r.result
		kept.mu.Lock()
		defer kept.mu.Unlock()
		return kept.got
	}
}

// roots returns the spans that no other of them is above.
func roots(all []tracetest.SpanStub) (found []tracetest.SpanStub) {
	for _, s := range all {
		if s.Parent.IsRemote() || !s.Parent.IsValid() {
			found = append(found, s)
		}
	}
	return found
}

// below returns the spans below one, in the order of time.
func below(all []tracetest.SpanStub, of *tracetest.SpanStub) (found []tracetest.SpanStub) {
	for _, s := range all {
		if s.Parent.SpanID() == of.SpanContext.SpanID() {
			found = append(found, s)
		}
	}
	slices.SortStableFunc(found, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	return found
}

// treeOf writes a tree of spans as text, and complains of spans that are not inside the one above, or overlap.
func treeOf(t *testing.T, all []tracetest.SpanStub, of *tracetest.SpanStub) string {
	t.Helper()
	parts := below(all, of)
	if len(parts) == 0 {
		return of.Name
	}
	var names []string
	last := of.StartTime
	for i := range parts {
		p := &parts[i]
		if p.StartTime.Before(last) || p.EndTime.Before(p.StartTime) || p.EndTime.After(of.EndTime) {
			t.Errorf("%s, %v to %v, is not in its place in %s, %v to %v", p.Name, p.StartTime, p.EndTime, of.Name,
				of.StartTime, of.EndTime)
		}
		if p.SpanContext.TraceID() != of.SpanContext.TraceID() {
			t.Errorf("%s is of another trace than %s", p.Name, of.Name)
		}
		last = p.EndTime
		names = append(names, treeOf(t, all, p))
	}
	return of.Name + "(" + strings.Join(names, " ") + ")"
}

// attr returns an attribute of a span as text, "" if it has none of that key.
func attr(s *tracetest.SpanStub, key string) string {
	for _, a := range s.Attributes {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

const held = `
synth: {base: 1ms, ` + tensors + `}
max_latency: 1m
batching: {mode: on, max_batch_size: 8, batch_timeout: 1m, max_queue: 8, audit: 0}
`

// predictHeld sends unary requests with these ids, and keeps how they were executed, by their ids.
func predictHeld(ctx context.Context, t *testing.T, r *running, ids ...string,
) (wait func() map[string]*weftv1.ExecutionInfo) {
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		all = map[string]*weftv1.ExecutionInfo{}
	)
	for _, id := range ids {
		wg.Go(func() {
			q := weftest.Request("held", 1)
			q.RequestId = id
			answer, err := weftv1.NewPredictionServiceClient(r.conn).Predict(ctx, q)
			if err != nil {
				t.Errorf("%s: %v", id, err)
			}
			mu.Lock()
			defer mu.Unlock()
			all[id] = answer.GetExecution()
		})
	}
	return func() map[string]*weftv1.ExecutionInfo {
		wg.Wait()
		return all
	}
}

// TestTracesOfABatch: a request on a stream and seven calls share a batch. Each has a tree of its own, and the batch
// has one span that links to all of them, and they to it.
func TestTracesOfABatch(t *testing.T) {
	r, stop := serveTraced(t, "always_on", map[string]string{"held": held})
	ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
	defer cancel()
	stream, err := weftv1.NewPredictionServiceClient(r.conn).PredictStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	q := weftest.Request("held", 1)
	q.RequestId, q.EpisodeId = "s", "e"
	if err := stream.Send(&weftv1.PredictStreamRequest{Request: q}); err != nil {
		t.Fatal(err)
	}
	wait := predictHeld(ctx, t, r, "1", "2", "3", "4", "5", "6", "7")
	answer, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	said := wait()
	said["s"] = answer.GetResponse().GetExecution()
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	all := stop()

	var batch *tracetest.SpanStub
	requests := map[string]*tracetest.SpanStub{}
	for _, s := range roots(all) {
		switch {
		case s.Name == "batch" && batch == nil:
			batch = &s
		case s.Name != "batch" && s.SpanKind == trace.SpanKindServer && attr(&s, "weft.request_id") != "":
			requests[attr(&s, "weft.request_id")] = &s
		case strings.Contains(s.Name, "ModelService/"):
		default:
			t.Errorf("an unexpected root %s: %v", s.Name, s.Attributes)
		}
	}
	if batch == nil || len(requests) != 8 || len(batch.Links) != 8 {
		t.Fatalf("%d requests and the batch %v, want 8 and one that links to them", len(requests), batch)
	}
	for id, s := range requests {
		method := "weft.v1.PredictionService/Predict"
		if id == "s" {
			method += "Stream"
		}
		if got := treeOf(t, all, s); got != method+"(intake queue batch(copy run scatter) write)" {
			t.Errorf("%s: %s", id, got)
		}
		parts := below(all, s)
		queue, run := parts[1], parts[2]
		info := said[id]
		if got := queue.EndTime.Sub(queue.StartTime).Microseconds(); got != info.GetQueueUs() {
			t.Errorf("%s waited %d us by its span, and %d by its answer", id, got, info.GetQueueUs())
		}
		if got := run.EndTime.Sub(run.StartTime).Microseconds(); got != info.GetComputeUs() {
			t.Errorf("%s ran for %d us by its span, and %d by its answer", id, got, info.GetComputeUs())
		}
		if !run.StartTime.Equal(batch.StartTime) || !run.EndTime.Equal(batch.EndTime) {
			t.Errorf("%s ran from %v to %v, its batch from %v to %v", id, run.StartTime, run.EndTime, batch.StartTime,
				batch.EndTime)
		}
		if len(run.Links) != 1 || !run.Links[0].SpanContext.Equal(batch.SpanContext) {
			t.Errorf("%s links to %v, want the batch", id, run.Links)
		}
		if !slices.ContainsFunc(batch.Links, func(l sdktrace.Link) bool { return l.SpanContext.Equal(s.SpanContext) }) {
			t.Errorf("the batch does not link to %s", id)
		}
		for key, want := range map[string]string{
			"weft.model": "held", "weft.version": "1", "weft.slot": "prod", "weft.priority": "critical", "weft.rows": "1",
			"weft.batch.requests": "8", "weft.batch.rows": "8", "weft.batch.size": "8", "weft.batch.flush_reason": "full",
			"weft.batch.number": attr(batch, "weft.batch.number"), "weft.device": info.GetDevice(),
			"rpc.system.name": "grpc", "rpc.method": method, "rpc.response.status_code": "OK",
			"weft.queue_seconds": fmt.Sprint(queue.EndTime.Sub(queue.StartTime).Seconds()),
		} {
			if got := attr(s, key); got != want {
				t.Errorf("%s: %s is %q, want %q", id, key, got, want)
			}
		}
	}
	if attr(requests["s"], "weft.episode") != "e" {
		t.Error("the episode is missing")
	}
	for key, want := range map[string]string{
		"weft.model": "held", "weft.batch.requests": "8", "weft.batch.size": "8", "weft.batch.flush_reason": "full",
		"weft.batch.failed": "false",
	} {
		if got := attr(batch, key); got != want {
			t.Errorf("the batch: %s is %q, want %q", key, got, want)
		}
	}
	if attr(batch, "weft.batch.pick_rule") == "" || attr(batch, "weft.batch.expected_seconds") == "" {
		t.Errorf("the batch does not say why it ran: %v", batch.Attributes)
	}
}

// TestTracesOfRequestsThatFail have the reason.
func TestTracesOfRequestsThatFail(t *testing.T) {
	r, stop := serveTraced(t, "always_on", map[string]string{"held": strings.Replace(held, "queue: 8", "queue: 7", 1)})
	ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
	defer cancel()
	client := weftv1.NewPredictionServiceClient(r.conn)
	first := predictHeld(ctx, t, r, "1", "2", "3", "4", "5", "6")
	awaitHeld(ctx, t, r, 6)

	leaves, leave := context.WithCancel(ctx)
	gone := make(chan error)
	go func() {
		q := weftest.Request("held", 1)
		q.RequestId = "cancelled"
		_, err := client.Predict(leaves, q)
		gone <- err
	}()
	awaitHeld(ctx, t, r, 7)
	want := func(id string, code codes.Code, adjust func(*weftv1.PredictRequest)) {
		t.Helper()
		q := weftest.Request("held", 1)
		q.RequestId = id
		adjust(q)
		if _, err := client.Predict(ctx, q); status.Code(err) != code {
			t.Errorf("%s: %v, want %v", id, err, code)
		}
	}
	want("refused", codes.ResourceExhausted, func(*weftv1.PredictRequest) {})
	leave()
	if err := <-gone; status.Code(err) != codes.Canceled {
		t.Error(err)
	}
	awaitHeld(ctx, t, r, 6)
	want("nonesuch", codes.NotFound, func(q *weftv1.PredictRequest) { q.Model.Name = "nonesuch" })
	want("wrong", codes.InvalidArgument, func(q *weftv1.PredictRequest) { q.Inputs["x"].Shape = []int64{1, 5} })
	stream, err := client.PredictStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	late := weftest.Request("held", 1)
	late.RequestId = "expired"
	for _, fault := range []struct {
		request *weftv1.PredictStreamRequest
		code    codes.Code
	}{
		{&weftv1.PredictStreamRequest{Request: late, Timeout: durationpb.New(1)}, codes.DeadlineExceeded},
		{&weftv1.PredictStreamRequest{Request: weftest.Request("held", 1)}, codes.InvalidArgument}, // without an id
	} {
		if err := stream.Send(fault.request); err != nil {
			t.Fatal(err)
		}
		if answer, err := stream.Recv(); codes.Code(answer.GetError().GetCode()) != fault.code {
			t.Error(answer, err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	r.stop() // which has what waits run
	first()
	all := stop()

	const one, some = "weft.v1.PredictionService/Predict", "weft.v1.PredictionService/PredictStream"
	got := map[string]string{}
	for _, s := range roots(all) {
		if reason := attr(&s, "weft.reason"); reason != "" {
			if s.Status.Code != otelcodes.Error || s.Status.Description == "" {
				t.Errorf("%s has the status %v", s.Name, s.Status)
			}
			got[attr(&s, "weft.request_id")] = fmt.Sprint(treeOf(t, all, &s), " ", reason, " ", attr(&s, "error.type"))
		}
	}
	for id, want := range map[string]string{
		"refused":   one + "(intake queue write) QUEUE_FULL RESOURCE_EXHAUSTED",
		"cancelled": one + "(intake queue write) CANCELLED CANCELLED",
		"expired":   some + "(intake queue write) EXPIRED DEADLINE_EXCEEDED",
		"nonesuch":  one + "(intake write) NOT_FOUND NOT_FOUND",
		"wrong":     one + "(intake write) INVALID_ARGUMENT INVALID_ARGUMENT",
		"":          some + "(intake write) INVALID_ARGUMENT INVALID_ARGUMENT",
	} {
		if got[id] != want {
			t.Errorf("%s: %s, want %s", id, got[id], want)
		}
	}
}

const (
	callersTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	callersSpan  = "00f067aa0ba902b7"
)

// TestTracesGoOn that a caller has begun, if it has it sampled: one of gRPC, of HTTP, and of a request on a stream. The
// answer says where.
func TestTracesGoOn(t *testing.T) {
	for _, flags := range []string{"00", "01"} {
		t.Run(flags, func(t *testing.T) {
			r, stop := serveTraced(t, "parentbased_always_off", map[string]string{"walker": quick})
			ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
			defer cancel()
			parent := "00-" + callersTrace + "-" + callersSpan + "-" + flags
			with := metadata.AppendToOutgoingContext(ctx, "traceparent", parent, "tracestate", "a=b")
			var header metadata.MD
			answered := func(what, got string, name *string) {
				t.Helper()
				rest, is := strings.CutPrefix(got, "00-"+callersTrace+"-")
				if is != (flags == "01") {
					t.Errorf("%s: answered with the trace %q", what, got)
				}
				*name, _, _ = strings.Cut(rest, "-")
			}
			ids := map[string]*string{"grpc": new(string), "http": new(string), "stream": new(string), "failed": new(string)}
			client := weftv1.NewPredictionServiceClient(r.conn)
			if _, err := client.Predict(with, weftest.Request("walker", 1), grpc.Header(&header)); err != nil {
				t.Fatal(err)
			}
			answered("gRPC", strings.Join(header.Get("traceresponse"), " "), ids["grpc"])
			header = nil
			if _, err := client.Predict(with, weftest.Request("nonesuch", 1), grpc.Header(&header)); err == nil {
				t.Error("there is a model nonesuch")
			}
			answered("gRPC, an error", strings.Join(header.Get("traceresponse"), " "), ids["failed"])

			q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.http+"/v2/models/walker/infer", strings.NewReader(
				`{"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}`))
			if err != nil {
				t.Fatal(err)
			}
			q.Header.Set("Traceparent", parent)
			q.Header.Set("Content-Type", "application/json")
			answer, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				t.Fatal(answer.Status)
			}
			answered("HTTP", answer.Header.Get("Traceresponse"), ids["http"])

			stream, err := inference.NewGRPCInferenceServiceClient(r.conn).ModelStreamInfer(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if err := stream.Send(inferred(parent)); err != nil {
				t.Fatal(err)
			}
			if answer, err := stream.Recv(); err != nil || answer.GetErrorMessage() != "" {
				t.Fatal(err, answer.GetErrorMessage())
			}
			if err := stream.CloseSend(); err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			// One without a parent is none of the sample.
			if _, err := client.Predict(ctx, weftest.Request("walker", 1)); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range stop() {
				if s.SpanKind != trace.SpanKindServer {
					continue
				}
				got = append(got, s.Name)
				if s.Parent.TraceID().String() != callersTrace || s.Parent.SpanID().String() != callersSpan ||
					!s.Parent.IsRemote() {
					t.Errorf("%s: the parent is %v", s.Name, s.Parent)
				}
				if strings.HasPrefix(s.Name, "weft") && s.SpanContext.TraceState().String() != "a=b" {
					t.Errorf("%s: trace state %v", s.Name, s.SpanContext.TraceState())
				}
				for of, id := range ids {
					if *id == s.SpanContext.SpanID().String() {
						delete(ids, of)
					}
				}
			}
			var want []string
			if flags == "01" {
				want = []string{
					"weft.v1.PredictionService/Predict", "weft.v1.PredictionService/Predict",
					"POST /v2/models/{model}/infer", "inference.GRPCInferenceService/ModelStreamInfer",
				}
				delete(ids, "stream") // whose answers do not say
				if len(ids) > 0 {
					t.Errorf("the answers of %v name other spans", ids)
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("spans %q, want %q", got, want)
			}
		})
	}
}

// inferred is a request of the Open Inference Protocol that brings its parent.
func inferred(parent string) *inference.ModelInferRequest {
	return &inference.ModelInferRequest{
		ModelName: "walker",
		Parameters: map[string]*inference.InferParameter{
			"traceparent": {ParameterChoice: &inference.InferParameter_StringParam{StringParam: parent}},
		},
		Inputs: []*inference.ModelInferRequest_InferInputTensor{{
			Name: "x", Datatype: "FP32", Shape: []int64{1, 4},
			Contents: &inference.InferTensorContents{Fp32Contents: []float32{1, 2, 3, 4}},
		}},
	}
}

// TestTracesOfShadows: what a shadow repeats has a trace of its own, which links to the one that it repeats.
func TestTracesOfShadows(t *testing.T) {
	traceInto(t, "always_on")
	repository := t.TempDir()
	weftest.AddVersion(t, repository, "walker", 1)
	weftest.AddVersion(t, repository, "walker", 2)
	weftest.SetManifest(t, repository, "walker",
		quick+"\nversions: {policy: all}\ntraffic: {split: [{slot: a, version: 1, weight: 1}], shadow: [{version: 2}]}\n")
	r := serveFrom(t, repository, nil)
	r.until(t, "both versions are ready", func(m *weftv1.Model) bool { return ready(m) == "[1 2]" })
	ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
	defer cancel()
	if ended, errs := weftest.Predict(ctx, r.conn, "walker", "x", 1); ended[codes.OK] != 1 {
		t.Fatal(errs)
	}
	weftest.Until(t, "the shadow has answered", func() bool {
		_, page := r.get(t, "/metrics")
		return strings.Contains(page, `weft_shadow_requests_total{model="walker",outcome="done",version="2"} 1`)
	})
	r.stop()
	r.result <- <-r.result
	var request, shadow *tracetest.SpanStub
	for _, s := range roots(kept.got) {
		switch {
		case s.Name == "shadow":
			shadow = &s
		case s.SpanKind == trace.SpanKindServer && attr(&s, "weft.model") == "walker":
			request = &s
		}
	}
	if request == nil || shadow == nil {
		t.Fatalf("spans %v", kept.got)
	}
	if len(shadow.Links) != 1 || !shadow.Links[0].SpanContext.Equal(request.SpanContext) {
		t.Errorf("the shadow links to %v, want %v", shadow.Links, request.SpanContext)
	}
	if got := treeOf(t, kept.got, shadow); got != "shadow(queue batch(copy run scatter))" {
		t.Error(got)
	}
	if attr(shadow, "weft.version") != "2" || attr(shadow, "weft.priority") != "sheddable" {
		t.Errorf("the shadow has %v", shadow.Attributes)
	}
}

// TestTracedBodiesAreBounded as others are.
func TestTracedBodiesAreBounded(t *testing.T) {
	r, stop := serveTraced(t, "always_on", map[string]string{"walker": quick})
	body := strings.NewReader(strings.Repeat(" ", 65<<10))
	answer, err := http.Post(r.http+"/v2/repository/index", "application/json", body)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusRequestEntityTooLarge {
		t.Error(answer.Status)
	}
	all := stop()
	if len(all) != 1 || all[0].Name != "POST /v2/repository/index" ||
		attr(&all[0], "http.response.status_code") != "413" || all[0].Status.Code != otelcodes.Error {
		t.Errorf("spans %v", all)
	}
}

// TestNothingIsTracedThatIsNotSampled, and no answer names a trace.
func TestNothingIsTracedThatIsNotSampled(t *testing.T) {
	r, stop := serveTraced(t, "always_off", map[string]string{"walker": quick})
	ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
	defer cancel()
	var header metadata.MD
	_, err := weftv1.NewPredictionServiceClient(r.conn).Predict(
		metadata.AppendToOutgoingContext(ctx, "traceparent", "00-"+callersTrace+"-"+callersSpan+"-01"),
		weftest.Request("walker", 1), grpc.Header(&header))
	if err != nil {
		t.Fatal(err)
	}
	if got := header.Get("traceresponse"); got != nil {
		t.Errorf("the answer names a trace: %v", got)
	}
	if all := stop(); len(all) > 0 {
		t.Errorf("%d spans: %v", len(all), all[0])
	}
}

// TestLinesOfRequestsNameTheirTrace.
func TestLinesOfRequestsNameTheirTrace(t *testing.T) {
	traceInto(t, "always_on")
	repository := t.TempDir()
	weftest.AddVersion(t, repository, "walker", 1)
	weftest.SetManifest(t, repository, "walker", quick)
	var log weftest.Log
	r := serveLogging(t, repository, nil, telemetry.LogHandler(&log))
	r.awaitReady(t)
	ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
	defer cancel()
	if ended, errs := weftest.Predict(ctx, r.conn, "walker", "x", 1); ended[codes.OK] != 1 {
		t.Fatal(errs)
	}
	r.stop()
	r.result <- <-r.result
	i := slices.IndexFunc(kept.got, func(s tracetest.SpanStub) bool { return s.SpanKind == trace.SpanKindServer })
	done := log.Event("request_done")
	if i < 0 || len(done) != 1 ||
		weftest.Attr(done[0], "trace_id").String() != kept.got[i].SpanContext.TraceID().String() {
		t.Errorf("lines %v, spans %v", done, kept.got)
	}
}
