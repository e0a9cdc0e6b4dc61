package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weftserve/weft/internal/hostile"
	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/proto/gen/tensorflow/serving"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

const (
	viewers  = 3  // watch the live page of a server that is sent names
	fewNames = 50 // calls on a connection
)

// traced has a server trace one request in a hundred, whatever callers ask for, and send the spans to a collector.
func traced(collector string) []string {
	return []string{
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://" + collector + "/v1/traces", "OTEL_TRACES_SAMPLER=traceidratio",
		"OTEL_TRACES_SAMPLER_ARG=0.01",
	}
}

// collect takes the spans of a server and counts their bytes. It returns its HOST:PORT, and what ends it.
func collect(ctx context.Context, bytes *atomic.Int64) (address string, stop func(), err error) {
	var at net.ListenConfig
	l, err := at.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body) // what is lost is not looked at
		bytes.Add(n)
	})}
	go func() { _ = s.Serve(l) }() // until it is closed
	return l.Addr().String(), func() { _ = s.Close() }, nil
}

// view watches the live page until ctx ends.
func view(ctx context.Context, server string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+server+"/live/activity", http.NoBody)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("a viewer of the live page gets HTTP %d", answer.StatusCode)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	if ctx.Err() != nil {
		return nil
	}
	return errors.Join(errors.New("a viewer of the live page is sent no more"), err)
}

// newcomer is a batch of requests that are in order, but for their names, ids and tokens, which were never there
// before.
type newcomer struct{ *batch }

// name is one that nobody has had before.
func (n newcomer) name() string {
	return fmt.Sprintf("%s%x", []string{"model-", "user_", "", "Ä ", "a/b."}[n.rng.IntN(5)], n.rng.Uint64())
}

// all sends the batch, and returns when all calls were answered.
func (n newcomer) all() error {
	for n.sent < fewNames {
		if err := n.one(); err != nil {
			return err
		}
		n.sent++
	}
	if err := n.conn.Settle(); err != nil {
		return err
	}
	if end := n.conn.End(); end != "" {
		return fmt.Errorf("the server ended a connection that kept to the rules: %s", end)
	}
	return nil
}

// one sends one call.
func (n newcomer) one() error {
	q := sound(n.rng, echoModel)
	q.RequestId, q.EpisodeId, q.EndOfEpisode = n.name(), n.name(), n.rng.IntN(2) == 0
	if n.rng.IntN(10) > 0 {
		q.Model.Name = n.name()
	}
	switch n.rng.IntN(4) {
	case 0:
		q.Model.VersionChoice = &weftv1.ModelSpec_Version{Version: n.rng.Int64()}
	case 1:
		q.Model.VersionChoice = &weftv1.ModelSpec_Label{Label: n.name()}
	}
	switch n.rng.IntN(10) {
	case 0:
		return n.send("/"+n.name()+"/"+n.name(), q)
	case 1: // any other method
		k := hostile.Maker{RNG: n.rng, Words: []string{n.name(), n.name(), n.name(), echoModel}}
		for {
			if m := services[n.rng.IntN(len(services))]; !watches[m.Path] {
				return n.send(m.Path, k.Message(m.Input))
			}
		}
	case 2:
		return n.send(weftv1.PredictionService_PredictStream_FullMethodName, &weftv1.PredictStreamRequest{Request: q})
	case 3:
		return n.send(weftv1.PredictionService_ReportOutcome_FullMethodName, &weftv1.ReportOutcomeRequest{
			Model: q.GetModel(), EpisodeId: q.GetEpisodeId(), Metrics: map[string]float64{n.name(): 1},
		})
	case 4, 5:
		m := inferRequest(q).(*inference.ModelInferRequest)
		m.ModelVersion = n.name()
		m.Parameters = map[string]*inference.InferParameter{n.name(): {
			ParameterChoice: &inference.InferParameter_StringParam{StringParam: n.name()},
		}}
		return n.send(inference.GRPCInferenceService_ModelInfer_FullMethodName, m)
	case 6:
		m := tensorflowRequest(q).(*serving.PredictRequest)
		m.ModelSpec.SignatureName = n.name()
		m.ModelSpec.VersionChoice = &serving.ModelSpec_Version{Version: wrapperspb.Int64(n.rng.Int64())}
		return n.send(serving.PredictionService_Predict_FullMethodName, m)
	default:
		return n.send(weftv1.PredictionService_Predict_FullMethodName, q)
	}
}

// send sends a call of one message.
func (n newcomer) send(path string, m proto.Message) error {
	fields := []string{
		":method", "POST", ":scheme", "http", ":path", strings.ReplaceAll(path, " ", "+"), ":authority", "weft",
		"content-type", "application/grpc", "te", "trailers",
	}
	for name, value := range n.header() {
		fields = append(fields, name, value)
	}
	id := n.conn.Headers(false, fields...)
	n.conn.Expect(id, &sent{what: "a call of " + path})
	return n.conn.Message(id, hostile.Encode(m), true)
}

// header returns what a call says of its caller.
func (n newcomer) header() map[string]string {
	all := map[string]string{
		"user-agent": "agent/" + n.hex(), "x-request-id": n.hex(), "x-user": n.hex(), "x-tenant": n.hex(),
		"x-" + n.hex(): n.hex(), "baggage": "user=" + n.hex(),
		"traceparent": fmt.Sprintf("00-%s%s-%s-0%d", n.hex(), n.hex(), n.hex(), n.rng.IntN(2)),
	}
	switch n.rng.IntN(8) {
	case 0:
		all["authorization"] = "Bearer " + n.hex()
	case 1:
		all["authorization"] = "Bearer " + token
	}
	return all
}

// hex returns 16 digits.
func (n newcomer) hex() string { return fmt.Sprintf("%016x", max(1, n.rng.Uint64())) }

// pages asks the HTTP address for its pages, also for ones that are not there.
func (n newcomer) pages(ctx context.Context, w *web) error {
	defer w.client.CloseIdleConnections()
	for n.sent < fewNames {
		n.sent++
		name := "/" + n.hex()
		path := []string{
			name, name + name, "/v2/models" + name, "/v2/models" + name + "/infer", "/v2/models" + name + "/versions" + name,
			"/readyz" + name, "/live" + name, "/v2/systemsharedmemory/region" + name + "/status",
		}[n.rng.IntN(8)]
		method, body := http.MethodGet, []byte(nil)
		if strings.HasSuffix(path, "/infer") {
			q := sound(n.rng, echoModel)
			if n.rng.IntN(2) == 0 {
				path = "/v2/models/" + echoModel + "/infer"
			}
			method = http.MethodPost
			body, _ = w.encode(q)
		}
		var fields []string
		for name, value := range n.header() {
			fields = append(fields, name, value)
		}
		if _, err := w.send(ctx, method, path+"?user="+n.hex(), body, fields...); err != nil {
			return err
		}
	}
	return nil
}

// withViewers runs do while several watch the live page.
func (s *server) withViewers(ctx context.Context, do func() error) error {
	ctx, leave := context.WithCancel(ctx)
	ended := make(chan error, viewers)
	for range viewers {
		go func() { ended <- view(ctx, s.HTTP) }()
	}
	err := do()
	leave()
	for range viewers {
		err = errors.Join(err, <-ended)
	}
	return err
}
