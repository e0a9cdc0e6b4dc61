package telemetry_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	reflectiongrpc "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/tap"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/internal/telemetry"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/predict"
)

// collector is an OTLP collector over HTTP. It keeps the requests that it gets as JSON, by path.
type collector struct {
	mu  sync.Mutex
	got map[string]string // guarded by mu
}

func startCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{got: map[string]string{}}
	messages := map[string]proto.Message{
		"/v1/traces":  &tracepb.ExportTraceServiceRequest{},
		"/v1/metrics": &metricspb.ExportMetricsServiceRequest{},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		c.mu.Lock()
		defer c.mu.Unlock()
		if m := messages[r.URL.Path]; err != nil || m == nil || proto.Unmarshal(body, m) != nil {
			t.Errorf("%s is not what OTLP sends: %v", r.URL, err)
		} else {
			c.got[r.URL.Path] += protojson.Format(m)
		}
	}))
	t.Cleanup(server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	return c
}

func (c *collector) received(path string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.got[path]
}

// predicting is a health service that runs a prediction when it is asked for its list, so that there is a request to
// trace.
type predicting struct {
	*health.Server
	traces *telemetry.Traces // nil: nothing is traced
	models telemetry.Models
	call   *catalog.Call
}

func (p predicting) List(ctx context.Context, _ *healthgrpc.HealthListRequest) (*healthgrpc.HealthListResponse, error) {
	var one predict.Trace
	if p.traces != nil {
		ctx, one = p.traces.Begin(ctx, &predict.Request{})
		p.call.Traced = one != nil
	}
	err := p.models.Predict(ctx, p.call)
	if one != nil {
		one.Done(&predict.Course{
			Event:   &predict.Event{Model: "walker", Code: "OK", Execution: predict.Execution{Outcome: p.call.Outcome}},
			Request: &predict.Request{},
		})
	}
	return &healthgrpc.HealthListResponse{}, err
}

// callAll serves with the telemetry's options, and makes calls that are traced and calls that are not.
func callAll(t *testing.T, tel *telemetry.Telemetry, models telemetry.Models, call *catalog.Call) {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	// A call's span ends after its answer was sent: Stop must wait for that.
	options := []grpc.ServerOption{grpc.WaitForHandlers(true)}
	if traces := tel.Traces(); traces != nil {
		options = append(options, grpc.InTapHandle(func(ctx context.Context, call *tap.Info) (context.Context, error) {
			return traces.Came(ctx, call.FullMethodName, call.Header, false), nil
		}), grpc.UnaryInterceptor(func(
			ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
		) (answer any, err error) {
			defer func() { traces.Ended(ctx, err) }()
			return handle(ctx, req)
		}))
	}
	server := grpc.NewServer(options...)
	defer server.Stop()
	desc := healthgrpc.Health_ServiceDesc
	desc.ServiceName = "weft.test.Models"
	service := predicting{health.NewServer(), tel.Traces(), models, call}
	server.RegisterService(&desc, service)
	healthgrpc.RegisterHealthServer(server, service)
	reflection.Register(server)
	go server.Serve(listener)
	conn, err := grpc.NewClient("passthrough:bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn,
			error,
		) {
			return listener.DialContext(ctx)
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Invoke(t.Context(), "/weft.test.Models/List", &healthgrpc.HealthListRequest{},
		&healthgrpc.HealthListResponse{}); err != nil {
		t.Fatal(err)
	}
	if _, err := healthgrpc.NewHealthClient(conn).Check(t.Context(), &healthgrpc.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	stream, err := reflectiongrpc.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

func TestTracesAndMetricsAreExportedWhenAskedFor(t *testing.T) {
	c := startCollector(t)
	t.Setenv("OTEL_SERVICE_NAME", "walker-robot")
	h := newHouse()
	tel, err := telemetry.New(t.Context(), telemetry.Config{Version: "1.2.3", Slot: slot})
	if err != nil {
		t.Fatal(err)
	}
	models, err := tel.Watch(h, h)
	if err != nil {
		t.Fatal(err)
	}
	callAll(t, tel, models, &catalog.Call{Version: h.snapshot.Model("walker").Version(3), Rows: 2})
	page := fetch(tel, "application/openmetrics-text;version=1.0.0").Body.String()
	if !strings.Contains(page, "trace_id=") {
		t.Errorf("no time in the queue leads to its trace:\n%s", page)
	}
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}

	traces, metrics := c.received("/v1/traces"), c.received("/v1/metrics")
	for _, want := range []string{
		"weft.test.Models/List", "weft.model", "walker", "1.2.3", "walker-robot",
	} {
		if !strings.Contains(traces, want) {
			t.Errorf("no %q in the traces:\n%s", want, traces)
		}
	}
	for _, unwanted := range []string{"grpc.health", "grpc.reflection"} {
		if strings.Contains(traces, unwanted) {
			t.Errorf("%q was traced", unwanted)
		}
	}
	if !strings.Contains(metrics, "weft_queue_wait_seconds") || strings.Contains(metrics, "rpc.server") {
		t.Errorf("metrics sent:\n%s", metrics)
	}
}

func TestNothingIsExportedUnasked(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"none":     {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"},
		"disabled": {"OTEL_SDK_DISABLED": "true"},
		"unset":    {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := startCollector(t)
			for key, value := range env {
				t.Setenv(key, value)
			}
			tel, err := telemetry.New(t.Context(), telemetry.Config{Slot: slot})
			if err != nil {
				t.Fatal(err)
			}
			if tel.Traces() != nil {
				t.Error("calls are followed, which costs each of them something")
			}
			if err := tel.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			if traces, metrics := c.received("/v1/traces"), c.received("/v1/metrics"); traces+metrics != "" {
				t.Errorf("sent %s%s", traces, metrics)
			}
		})
	}
}

func TestOneSignalAlone(t *testing.T) {
	c := startCollector(t)
	t.Setenv("OTEL_TRACES_EXPORTER", "none")
	h := newHouse()
	tel, err := telemetry.New(t.Context(), telemetry.Config{Slot: slot})
	if err != nil {
		t.Fatal(err)
	}
	models, err := tel.Watch(h, h)
	if err != nil {
		t.Fatal(err)
	}
	exercise(t, tel, models, h)
	if tel.Traces() != nil {
		t.Error("calls are followed, which costs each of them something")
	}
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if !strings.Contains(c.received("/v1/metrics"), "weft_requests_total") {
		t.Errorf("metrics sent: %s", c.received("/v1/metrics"))
	}
}

func TestUnknownExporterIsNamed(t *testing.T) {
	for _, variable := range []string{"OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER"} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, "carrier-pigeon")
			_, err := telemetry.New(t.Context(), telemetry.Config{Slot: slot})
			if err == nil || !strings.Contains(err.Error(), variable+`="carrier-pigeon"`) {
				t.Errorf("error %v", err)
			}
		})
	}
}
