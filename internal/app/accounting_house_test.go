package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/grpc"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/lifecycle"
	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/telemetry"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/activity"
	"github.com/weftserve/weft/sharedsched/shell"
)

// accountedModels are the models of the accounting test. Their requests end in different ways.
var accountedModels = map[string]string{
	"walker": quickWith("versions: {policy: all}",
		"batching: {mode: on, max_batch_size: 8, allowed_batch_sizes: [2, 8]}"),
	"poisoned": "synth: {base: 200us, fail_on_nan: true, fail_every: 23, " + tensors +
		"}\nbatching: {mode: on, max_batch_size: 8}",
	"narrow": `{synth: {base: 1ms, ` + tensors + `}, batching: {mode: "off", max_queue: 2}}`,
	"patient": `{synth: {base: 20ms, ` + tensors +
		`}, batching: {mode: "off", max_queue: 1, on_full: wait}, max_latency: 200ms}`,
	"held": quickWith("batching: {mode: on, max_batch_size: 8, batch_timeout: 3ms, max_request_rows: 20}",
		"max_latency: 50ms"),
	"impatient": `{synth: {base: 2ms, ` + tensors + `}, batching: {mode: "off"}}`,
	"holding": quickWith("batching: {mode: on, max_batch_size: 8, batch_timeout: 1m, max_queue: 4, on_full: wait}",
		"max_latency: 2m"),
	"policy":     "batching: {max_batch_size: 8}",
	"unloadable": "",
}

// accounted is a whole server in this process whose metrics are there until after its end.
type accounted struct {
	t       *testing.T
	conn    *grpc.ClientConn
	admin   *grpc.ClientConn
	metrics string // URL
	// stop drains the server, and everything behind it.
	stop func()
}

// serveAccounted serves the models.
func serveAccounted(t *testing.T) *accounted {
	t.Helper()
	repository := t.TempDir()
	for name, manifest := range accountedModels {
		weftest.AddVersion(t, repository, name, 1)
		weftest.SetManifest(t, repository, name, manifest)
	}
	weftest.AddVersion(t, repository, "walker", 2)
	for name, file := range map[string][]byte{
		"policy":     onnxgraph.MLP("policy", []int{4, 8, 2}, 1, "Tanh", ""),
		"unloadable": []byte("no model"),
	} {
		if err := os.WriteFile(filepath.Join(repository, name, "1", "model.onnx"), file, 0o644); err != nil {
			t.Fatal(err)
		}
	}

	log := slog.New(slog.DiscardHandler)
	settings := config.DefaultServer()
	settings.MaxConcurrentRequests, settings.MaxMessageBytes = 48, 16<<10
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	measured, err := telemetry.New(t.Context(), telemetry.Config{Version: "test", Slot: slotOf, Logger: log})
	check(err)
	var edge *server.Server
	shown := activity.New()
	h, err := newHouse(&settings, log, nil, host.Config{
		OnChange: func(*catalog.Snapshot) { edge.ModelsChanged() },
		LastUse:  func(model string, version int64) time.Time { return edge.Router().LastUse(model, version) },
	}, shell.Options{Observer: batchObserver{measured, shown}})
	check(err)
	models, err := measured.Watch(h.models, h.scheduler)
	check(err)
	shown.Watch(activity.Config{
		Models: h.models.Snapshot, State: h.scheduler.State, VersionName: h.scheduler.VersionName,
		Epoch: h.scheduler.Epoch(), Slot: slotOf, Totals: totalsOf(measured),
	})
	mirror, mirrored, err := newMirror(h.models, "", measured, nil, log)
	check(err)
	memory := &tensor.Recycler{}
	edge = server.New(server.Config{
		MaxConcurrentRequests: settings.MaxConcurrentRequests, MaxMessageBytes: int(settings.MaxMessageBytes),
		Memory: memory,
		Logger: log, Observer: requestObserver{measured, shown, log}, Activity: shown, Shadows: mirror,
	}, models, h.scheduler)
	transport := grpc.NewServer(grpcOptions(&settings, memory)...)
	edge.Register(transport)
	grpcListener, err := listen(t.Context(), "listen", "127.0.0.1:0")
	check(err)
	adminListener, err := listen(t.Context(), "admin-listen", "127.0.0.1:0")
	check(err)
	_, listing, err := scan(&Settings{Repositories: []string{repository}}, log)
	check(err)
	check(h.library.check(listing))
	h.models.Follow(listing)
	check(h.models.Settled(t.Context()))

	page := httptest.NewServer(measured.MetricsHandler())
	a := &accounted{t: t, metrics: page.URL}
	a.conn, err = weftest.Dial(grpcListener.Addr().String())
	check(err)
	a.admin, err = weftest.Dial(adminListener.Addr().String())
	check(err)
	// In the order in which serve stops them.
	parts := []lifecycle.Part{
		grpcPart(grpcListener, edge, transport, h.scheduler.Hurry, h.scheduler.Abandon, h.end, log),
		adminPart(adminListener, server.NewAdmin(edge, h.models), grpcOptions(&settings, memory)),
		mirrored,
		{Name: "scheduler and models", Stop: h.close},
	}
	ended := make(chan error, len(parts))
	for _, p := range parts[:2] {
		go func() { ended <- p.Run() }()
	}
	a.stop = func() {
		for _, p := range parts {
			check(p.Stop(context.WithoutCancel(t.Context())))
		}
		for range parts[:2] {
			check(<-ended)
		}
	}
	t.Cleanup(func() {
		a.conn.Close()
		a.admin.Close()
		page.Close()
		check(measured.Shutdown(context.WithoutCancel(t.Context())))
	})
	return a
}

// sums are the samples of a metric, summed by some of their labels.
type sums map[string]int

// page fetches the metrics.
func (a *accounted) page() map[string]*dto.MetricFamily {
	a.t.Helper()
	resp, err := http.Get(a.metrics)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	return families
}

// by sums the samples of a metric by the values of the labels, each followed by a space.
func by(page map[string]*dto.MetricFamily, metric string, labels ...string) sums {
	out := sums{}
	for _, m := range page[metric].GetMetric() {
		values := make([]string, 0, len(labels))
		for _, name := range labels {
			for _, l := range m.GetLabel() {
				if l.GetName() == name {
					values = append(values, l.GetValue())
				}
			}
		}
		out[of(values...)] += int(m.GetCounter().GetValue() + m.GetGauge().GetValue())
	}
	return out
}

// of is the key of sums: quoted, for a value may be empty.
func of(values ...string) string { return fmt.Sprintf("%q", values) }

// balance returns the sums on a page that do not add up.
func balance(page map[string]*dto.MetricFamily) (faults []string) {
	for _, sheet := range []struct {
		came, ended, between string
		labels               []string
	}{
		{"weft_requests_offered_total", "weft_requests_total", "weft_requests_in_flight", []string{"method", "model"}},
		{
			"weft_tasks_accepted_total", "weft_tasks_ended_total",
			"weft_tasks_in_flight",
			[]string{"device", "model", "version"},
		},
		{
			"weft_executions_started_total", "weft_executions_ended_total",
			"weft_executions_in_flight",
			[]string{"device", "model", "version"},
		},
		{
			"weft_room_waits_total", "weft_room_waits_ended_total",
			"weft_waiting_for_room",
			[]string{"device", "model", "version"},
		},
	} {
		came, ended, between := by(page, sheet.came, sheet.labels...), by(page, sheet.ended, sheet.labels...),
			by(page, sheet.between, sheet.labels...)
		for key, n := range came {
			if n != ended[key]+between[key] || between[key] < 0 {
				faults = append(faults, fmt.Sprintf("%s %s is %d, of which %d ended and %d are in flight", key,
					sheet.came, n, ended[key], between[key]))
			}
		}
		for key := range ended {
			if _, is := came[key]; !is {
				faults = append(faults, fmt.Sprintf("%s %s: %d ended, none came", key, sheet.ended, ended[key]))
			}
		}
	}
	return faults
}
