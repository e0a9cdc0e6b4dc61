package telemetry_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/weftserve/weft/gpu"
	"github.com/weftserve/weft/internal/telemetry"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/shadow"
	"github.com/weftserve/weft/sharedsched"
)

var update = flag.Bool("update", false, "rewrite testdata/metrics.txt")

// house is a host and a scheduler in one.
type house struct {
	snapshot *catalog.Snapshot
	state    sharedsched.State
	err      error // of Predict
}

func (h *house) Snapshot() *catalog.Snapshot { return h.snapshot }
func (h *house) State() sharedsched.State    { return h.state }
func (h *house) Epoch() time.Time            { return time.Time{} }
func (h *house) VersionName(id sharedsched.VersionID) string {
	for i := range h.state.Versions {
		if v := &h.state.Versions[i]; v.ID == id {
			return v.Name
		}
	}
	return ""
}

func (h *house) Predict(_ context.Context, call *catalog.Call) error {
	call.Outcome.Queue = 3 * time.Millisecond
	return h.err
}

// newHouse has walker/3, ready, number 7 in the scheduler, and walker/4, loading, number 8.
func newHouse() *house {
	h := &house{state: sharedsched.State{
		Devices: []sharedsched.DeviceState{
			{Device: sharedsched.Device{Name: "cpu"}, Lag: 2_500_000},
			{Device: sharedsched.Device{Name: "synth"}},
		},
		Versions: []sharedsched.VersionState{
			{ID: 7, Name: "walker/3", Queued: 3, Background: 2},
			{ID: 8, Name: "walker/4"},
		},
		Accounts: []sharedsched.Account{{
			Name: "walker/3", Device: "cpu",
			Accepted: 11, Ended: [...]uint64{
				sharedsched.EndDone: 5, sharedsched.EndFailed: 1,
				sharedsched.EndAgain: 2,
			}, Live: 3,
			Started: 4, Executions: [...]uint64{
				sharedsched.NotFailed: 2, sharedsched.ModelFailed: 1,
				sharedsched.LostDevice: 0,
			}, InFlight: 1, Late: 3, Reruns: 2,
			Waits: 7, WaitsEnded: [...]uint64{sharedsched.WaitExpired: 6, sharedsched.WaitCancelled: 0}, Waiting: 1,
		}},
	}}
	h.publish(
		&catalog.Version{
			Model: "walker", Number: 3, State: catalog.Ready, Device: "cpu", Scheduler: 7,
			Replicas: []catalog.Replica{{Device: "cpu", Scheduler: 7}},
			Live: func() catalog.Live {
				return catalog.Live{Replayed: 3, Eager: 1, GraphFailures: 2, Memory: []int64{1 << 20}}
			},
		},
		&catalog.Version{Model: "walker", Number: 4, State: catalog.Loading},
	)
	h.snapshot.Lost = []catalog.LostDevice{{Name: "synth", Cause: "fell off the bus"}}
	return h
}

func (h *house) publish(versions ...*catalog.Version) {
	h.snapshot = &catalog.Snapshot{Models: catalog.ByName(
		&catalog.Model{Name: "broken", Cause: "model.yaml: no"},
		&catalog.Model{Name: "empty"},
		&catalog.Model{Name: "walker", Versions: versions},
	)}
}

func slot(m *catalog.Model, v *catalog.Version) string {
	if m.Newest() == v {
		return "prod"
	}
	return ""
}

func start(t *testing.T, h *house) (*telemetry.Telemetry, telemetry.Models) {
	t.Helper()
	tel, err := telemetry.New(t.Context(), telemetry.Config{Version: "test", Revision: "c0ffee", Slot: slot})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tel.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	models, err := tel.Watch(h, h)
	if err != nil {
		t.Fatal(err)
	}
	return tel, models
}

// page fetches the metrics.
func page(t *testing.T, tel *telemetry.Telemetry) map[string]*dto.MetricFamily {
	t.Helper()
	rec := httptest.NewRecorder()
	tel.MetricsHandler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(rec.Body)
	if err != nil || rec.Code != 200 {
		t.Fatalf("status %d, %v", rec.Code, err)
	}
	return families
}

// values returns the samples of our metrics as "name{label=value,...}": a counter's or gauge's value, a histogram's
// count and sum.
func values(t *testing.T, tel *telemetry.Telemetry) map[string]string {
	t.Helper()
	got := map[string]string{}
	for name, family := range page(t, tel) {
		if !strings.HasPrefix(name, "weft_") {
			continue
		}
		for _, m := range family.GetMetric() {
			var pairs []string
			for _, l := range m.GetLabel() {
				pairs = append(pairs, l.GetName()+"="+l.GetValue())
			}
			slices.Sort(pairs)
			value := fmt.Sprint(m.GetCounter().GetValue() + m.GetGauge().GetValue())
			if h := m.GetHistogram(); h != nil {
				value = fmt.Sprintf("%d, sum %g", h.GetSampleCount(), h.GetSampleSum())
			}
			got[name+"{"+strings.Join(pairs, ",")+"}"] = value
		}
	}
	return got
}

var batch = sharedsched.BatchEvent{
	Version: 7, Device: "cpu", Tasks: 2, Rows: 3, Padded: 4, Reason: sharedsched.FlushDeviceIdle,
	Estimated: 10 * time.Millisecond, DeviceTime: 20 * time.Millisecond, Elapsed: 21 * time.Millisecond,
}

// gpuSample is a sample of a GPU that everything is known about.
var gpuSample = gpu.Sample{
	At: time.Now(), Known: gpu.AllQuantities, Clock: 1400, MaxClock: 1980, Reasons: gpu.SWPowerCap | gpu.HWThermal,
	Utilisation: 900, CoTenant: 125,
	MemoryTotal: 8000, MemoryUsed: 2000, MemoryFree: 5000, Power: 310.5, PowerLimit: 700, Temperature: 61, ECC: 4,
	XIDs: 2, LastXID: 31,
}

// exercise makes every metric appear once.
func exercise(t *testing.T, tel *telemetry.Telemetry, models telemetry.Models, h *house) {
	t.Helper()
	tel.BatchDone(batch)
	for range 3 {
		tel.RequestOffered("walker", false)
	}
	tel.RequestDone(t.Context(), &predict.Event{
		Model: "walker", Version: 3, Code: "OK", Duration: 25 * time.Millisecond, Degraded: true,
		FailedOverFrom: 2,
	})
	tel.ShadowDone(shadow.Event{
		Model: "walker", Shadow: 4, Outcome: shadow.Done, Agreed: true, MaxRelative: 0.25,
		ComputeRatio: 2,
	})
	tel.ShadowDone(shadow.Event{Model: "walker", Shadow: 4, Outcome: shadow.Dropped, MaxRelative: 7})
	tel.ShadowDone(shadow.Event{Model: "walker", Shadow: 5, Outcome: shadow.Done, MaxRelative: 0.5, ComputeRatio: 1})
	tel.OutcomeReported("walker", 3)
	tel.OutcomeNotKept("walker", 3, "too_many_names")
	tel.Uploaded("ready", 700)
	tel.Tried("walker", 3, "crashed")
	tel.Stepped("walker", 3, "see", 2*time.Second)
	tel.Audited("walker", 3, "equal", 1)
	tel.Audited("walker", 3, "skipped_budget", 99)
	err := tel.WatchSources(telemetry.Sources{
		Episodes:    func() int { return 12 },
		Utilization: func() (float64, bool) { return 1.25, true },
		EpisodeStates: func() telemetry.EpisodeStates {
			return telemetry.EpisodeStates{
				Live: map[string]int{"walker": 5}, Bytes: 320, Spare: 64,
				Ended: map[telemetry.EpisodeEnd]uint64{{Model: "walker", Reason: "idle"}: 6},
			}
		},
		Connections: func() telemetry.Connections {
			return telemetry.Connections{Open: 3, HeldBytes: 4096, Ended: map[string]uint64{"resets": 2}}
		},
		Breakers: func() []telemetry.Breaker {
			return []telemetry.Breaker{
				{Model: "walker", Version: 3, State: "half-open"},
				{Model: "walker", Version: 4, State: "open"},
			}
		},
		Verdicts: func() []telemetry.Verdict {
			return []telemetry.Verdict{{Model: "walker", Version: 4, Value: -1}, {Model: "hopper", Version: 2, Value: 1}}
		},
		Recording: func() telemetry.Recording {
			return telemetry.Recording{Written: 5, Dropped: 1, Lost: 2, Bytes: 1000, Deleted: 3}
		},
		Resident: func() telemetry.Resident {
			return telemetry.Resident{Loads: 4, LoadFailures: 2, Unloads: 1, TakenOut: 3, MemoryInUse: 3000, MemoryBudget: 9000}
		},
		ShadowLinesLost:   func() int64 { return 6 },
		CertificateExpiry: func() map[string]float64 { return map[string]float64{"server": 3600, "client_ca": -60} },
		HandshakeFailures: func() map[string]uint64 { return map[string]uint64{"expired": 2} },
		HTTPRefused:       func() map[string]uint64 { return map[string]uint64{"host": 1, "origin": 0} },
		WorkerMemory:      func() (map[string]int64, int64) { return map[string]int64{"cpu": 5000}, 7000 },
		QuotasUsed: func() map[string]map[string]float64 {
			return map[string]map[string]float64{"fleet": {"rate": 0.75}}
		},
		Workers: func() (map[string]time.Time, map[telemetry.WorkerDeath]uint64) {
			return map[string]time.Time{"cpu": time.Unix(1700000000, 5e8), "cuda:0": {}},
				map[telemetry.WorkerDeath]uint64{{Worker: "cpu", Signal: "SIGFPE"}: 3}
		},
		GPUs: func() []telemetry.GPU {
			return []telemetry.GPU{
				{
					Device: gpu.Device{Name: "cuda:0", UUID: "GPU-1", Product: "Test"}, Sample: gpuSample,
					FallBacks: map[string]int64{"expired": 3},
				},
				{Device: gpu.Device{Name: "cuda:1", UUID: "GPU-2"}, Sample: gpu.Sample{Lost: true}},
				{Device: gpu.Device{Name: "cuda:2"}, FallBacks: map[string]int64{"no_device": 1}},
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	call := &catalog.Call{Version: h.snapshot.Model("walker").Version(3)}
	if err := models.Predict(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	for _, h.err = range []error{
		&sharedsched.Refusal{Reason: sharedsched.RefusedQueueFull},
		&catalog.ModelError{Crashed: true, Signal: "SIGFPE", Err: errors.New("SIGFPE")},
		&catalog.ModelError{Crashed: true, Exceeded: 1 << 30, Err: errors.New("too much")},
		&catalog.ModelError{Crashed: true, Err: engine.Overrun(time.Second, errors.New("stopped"))},
		&catalog.ModelError{Err: errors.New("it only failed")},
	} {
		if err := models.Predict(t.Context(), call); !errors.Is(err, h.err) {
			t.Fatal(err)
		}
	}
	tel.RequestDenied("fleet", "QUOTA_RATE")
	tel.RequestUnread("walker")
	tel.CallCame(2 * time.Millisecond)
	shadow := *call
	shadow.Shadow, h.err = true, &catalog.ModelError{Crashed: true, Err: errors.New("SIGFPE")}
	if err := models.Predict(t.Context(), &shadow); !errors.Is(err, h.err) {
		t.Fatal(err)
	}
}

func TestNamesTypesAndLabels(t *testing.T) {
	h := newHouse()
	tel, models := start(t, h)
	exercise(t, tel, models, h)
	var lines []string
	families := page(t, tel)
	for _, name := range slices.Sorted(maps.Keys(families)) {
		family := families[name]
		switch {
		case strings.HasPrefix(name, "go_"), strings.HasPrefix(name, "process_"):
			continue
		case family.GetHelp() == "":
			t.Errorf("%s has no description", name)
		}
		labels := map[string]bool{}
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = true
			}
		}
		kind := strings.ToLower(family.GetType().String())
		lines = append(lines, fmt.Sprintf("%s %s {%s}", name, kind,
			strings.Join(slices.Sorted(maps.Keys(labels)), ", ")))
	}
	got := strings.Join(lines, "\n") + "\n"
	const golden = "testdata/metrics.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the metrics page differs from %s (go test -update rewrites it):\n%s", golden, diff)
	}
}

// TestEveryMetricIsInTheDocs compares the list of the metrics with the table of them for users.
func TestEveryMetricIsInTheDocs(t *testing.T) {
	golden, err := os.ReadFile("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for line := range strings.Lines(string(golden)) {
		name, _, _ := strings.Cut(line, " ")
		want = append(want, name)
	}
	for line := range strings.Lines(string(docs)) {
		names, isRow := strings.CutPrefix(line, "| `weft_")
		names, _, _ = strings.Cut(names, "` |")
		if isRow {
			for name := range strings.SplitSeq(names, "`, `weft_") {
				got = append(got, "weft_"+name)
			}
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/reference/metrics.md lists others than there are (-want +got):\n%s", diff)
	}
}

func TestValues(t *testing.T) {
	h := newHouse()
	tel, models := start(t, h)
	exercise(t, tel, models, h)
	want := map[string]string{
		"weft_access_denied_total{identity=fleet,reason=QUOTA_RATE}":                    "1",
		"weft_batch_cost_per_flush_ms{model=walker,version=3}":                          "1, sum 20",
		"weft_batch_size_per_flush{model=walker,version=3}":                             "1, sum 3",
		"weft_batch_flush_total{model=walker,reason=device_idle,slot=prod,version=3}":   "1",
		"weft_padding_rows_total{model=walker,version=3}":                               "1",
		"weft_cost_estimate_error_ratio{model=walker,version=3}":                        "1, sum 2",
		"weft_device_busy_seconds_total{device=cpu,model=walker,version=3}":             "0.02",
		"weft_queue_wait_seconds{model=walker,version=3}":                               "1, sum 0.003",
		"weft_rejected_total{model=walker,reason=QUEUE_FULL,version=3}":                 "1",
		"weft_requests_total{code=OK,method=Predict,model=walker,version=3}":            "1",
		"weft_request_duration_seconds{model=walker,version=3}":                         "1, sum 0.025",
		"weft_requests_unread_total{model=walker}":                                      "1",
		"weft_intake_delay_seconds{}":                                                   "1, sum 0.002",
		"weft_batch_cost_seconds{model=walker,version=3}":                               "1, sum 0.02",
		"weft_quota_used_ratio{identity=fleet,quota=rate}":                              "0.75",
		"weft_worker_start_time_seconds{worker=cpu}":                                    "1.7000000005e+09",
		"weft_requests_offered_total{method=Predict,model=walker}":                      "3",
		"weft_requests_in_flight{method=Predict,model=walker}":                          "2",
		"weft_tasks_accepted_total{device=cpu,model=walker,version=3}":                  "11",
		"weft_tasks_ended_total{device=cpu,end=done,model=walker,version=3}":            "5",
		"weft_tasks_ended_total{device=cpu,end=failed,model=walker,version=3}":          "1",
		"weft_tasks_ended_total{device=cpu,end=again,model=walker,version=3}":           "2",
		"weft_tasks_in_flight{device=cpu,model=walker,version=3}":                       "3",
		"weft_executions_started_total{device=cpu,model=walker,version=3}":              "4",
		"weft_executions_ended_total{device=cpu,model=walker,outcome=done,version=3}":   "2",
		"weft_executions_ended_total{device=cpu,model=walker,outcome=failed,version=3}": "1",
		"weft_executions_in_flight{device=cpu,model=walker,version=3}":                  "1",
		"weft_executions_late_total{device=cpu,model=walker,version=3}":                 "3",
		"weft_execution_reruns_total{device=cpu,model=walker,version=3}":                "2",
		"weft_room_waits_total{device=cpu,model=walker,version=3}":                      "7",
		"weft_room_waits_ended_total{device=cpu,end=expired,model=walker,version=3}":    "6",
		"weft_waiting_for_room{device=cpu,model=walker,version=3}":                      "1",
		"weft_device_lost{device=cpu}":                                                  "0",
		"weft_device_lost{device=synth}":                                                "1",
		"weft_queue_depth{model=walker,slot=prod,version=3}":                            "5",
		"weft_captured_graph_hit_rate{model=walker,slot=prod,version=3}":                "0.75",
		"weft_captured_graph_failures_total{model=walker,version=3}":                    "2",
		"weft_device_memory_bytes{device=cpu,model=walker,version=3}":                   "1.048576e+06",
		"weft_routing_degraded_total{model=walker}":                                     "1",
		"weft_failed_over_total{model=walker,version=2}":                                "1",
		"weft_shadow_requests_total{model=walker,outcome=done,version=4}":               "1",
		"weft_shadow_requests_total{model=walker,outcome=dropped,version=4}":            "1",
		"weft_shadow_agreed_total{model=walker,version=4}":                              "1",
		"weft_shadow_agreed_total{model=walker,version=5}":                              "0",
		"weft_shadow_compute_ratio{model=walker,version=5}":                             "1, sum 1",
		"weft_shadow_difference_ratio{model=walker,version=5}":                          "1, sum 0.5",
		"weft_shadow_requests_total{model=walker,outcome=done,version=5}":               "1",
		"weft_shadow_difference_ratio{model=walker,version=4}":                          "1, sum 0.25",
		"weft_shadow_compute_ratio{model=walker,version=4}":                             "1, sum 2",
		"weft_requests_crashed_total{cause=crash,model=walker,version=3}":               "1",
		"weft_requests_crashed_total{cause=hang,model=walker,version=3}":                "1",
		"weft_requests_crashed_total{cause=memory,model=walker,version=3}":              "1",
		"weft_outcomes_total{model=walker,version=3}":                                   "1",
		"weft_outcomes_not_kept_total{model=walker,reason=too_many_names,version=3}":    "1",
		"weft_uploads_total{outcome=ready}":                                             "1",
		"weft_upload_bytes_total{}":                                                     "700",
		"weft_quarantine_runs_total{end=crashed,model=walker,version=3}":                "1",
		"weft_pipeline_step_seconds{model=walker,step=see,version=3}":                   "1, sum 2",
		"weft_batching_audit_total{model=walker,result=equal,version=3}":                "1",
		"weft_batching_audit_total{model=walker,result=skipped_budget,version=3}":       "99",
		"weft_connections{}":                                        "3",
		"weft_connection_held_bytes{}":                              "4096",
		"weft_connections_ended_total{reason=resets}":               "2",
		"weft_episodes{}":                                           "12",
		"weft_utilization{}":                                        "1.25",
		"weft_episode_states{model=walker}":                         "5",
		"weft_episode_state_bytes{}":                                "320",
		"weft_episode_shadow_bytes{}":                               "64",
		"weft_episode_states_ended_total{model=walker,reason=idle}": "6",
		"weft_model_loads_total{outcome=ready}":                     "4",
		"weft_model_loads_total{outcome=failed}":                    "2",
		"weft_model_unloads_total{}":                                "1",
		"weft_versions_taken_out_total{}":                           "3",
		"weft_model_memory_bytes{}":                                 "3000",
		"weft_model_memory_budget_bytes{}":                          "9000",
		"weft_shadow_log_lines_lost_total{}":                        "6",
		"weft_certificate_expiry_seconds{role=server}":              "3600",
		"weft_certificate_expiry_seconds{role=client_ca}":           "-60",
		"weft_tls_handshake_failures_total{reason=expired}":         "2",
		"weft_http_refused_total{reason=host}":                      "1",
		"weft_http_refused_total{reason=origin}":                    "0",
		"weft_breaker_open{model=walker,version=3}":                 "0",
		"weft_breaker_open{model=walker,version=4}":                 "1",
		"weft_rollout_verdict{model=hopper,version=2}":              "1",
		"weft_rollout_verdict{model=walker,version=4}":              "-1",
		"weft_recorded_total{outcome=written}":                      "5",
		"weft_recorded_total{outcome=dropped}":                      "1",
		"weft_recorded_total{outcome=lost}":                         "2",
		"weft_recorded_bytes_total{}":                               "1000",
		"weft_recordings_deleted_total{}":                           "3",
		"weft_fairness_lag_ms{device=cpu}":                          "2.5",
		"weft_fairness_lag_seconds{device=cpu}":                     "0.0025",
		"weft_fairness_lag_seconds{device=synth}":                   "0",
		"weft_fairness_lag_ms{device=synth}":                        "0",
		"weft_models{state=ready}":                                  "1", "weft_models{state=loading}": "1",
		"weft_worker_up{worker=cpu}":                         "1",
		"weft_worker_up{worker=cuda:0}":                      "0",
		"weft_worker_memory_bytes{worker=cpu}":               "5000",
		"weft_worker_memory_bound_bytes{}":                   "7000",
		"weft_worker_deaths_total{signal=SIGFPE,worker=cpu}": "3",
		"weft_models{state=failed}":                          "1", "weft_models{state=unloading}": "0",
	}
	maps.Copy(want, map[string]string{
		"weft_build_info{goversion=" + runtime.Version() + ",revision=c0ffee,version=test}": "1",
		"weft_gpu_info{device=cuda:0,product=Test,uuid=GPU-1}":                              "1",
		"weft_gpu_info{device=cuda:1,product=,uuid=GPU-2}":                                  "1",
		"weft_gpu_lost{device=cuda:0}":                                                      "0", "weft_gpu_lost{device=cuda:1}": "1",
		"weft_gpu_clock_hertz{device=cuda:0}": "1.4e+09", "weft_gpu_clock_max_hertz{device=cuda:0}": "1.98e+09",
		"weft_gpu_memory_total_bytes{device=cuda:0}": "8000", "weft_gpu_memory_used_bytes{device=cuda:0}": "2000",
		"weft_gpu_memory_free_bytes{device=cuda:0}": "5000", "weft_gpu_utilization_ratio{device=cuda:0}": "0.9",
		"weft_gpu_co_tenant_ratio{device=cuda:0}": "0.125", "weft_gpu_power_watts{device=cuda:0}": "310.5",
		"weft_gpu_power_limit_watts{device=cuda:0}": "700", "weft_gpu_temperature_celsius{device=cuda:0}": "61",
		"weft_gpu_ecc_errors_total{device=cuda:0}": "4", "weft_gpu_xid_errors_total{device=cuda:0}": "2",
		"weft_gpu_fallbacks_total{device=cuda:0,reason=expired}":   "3",
		"weft_gpu_fallbacks_total{device=cuda:2,reason=no_device}": "1",
	})
	for _, reason := range gpu.AllReasons.Names() {
		want["weft_gpu_clock_event{device=cuda:0,reason="+reason+"}"] = "0"
	}
	for _, reason := range gpuSample.Reasons.Names() {
		want["weft_gpu_clock_event{device=cuda:0,reason="+reason+"}"] = "1"
	}
	got := values(t, tel)
	const age = "weft_gpu_sample_age_seconds{device=cuda:0}"
	if got[age] == "" || got[age] == "0" {
		t.Errorf("the age of the sample is %q", got[age])
	}
	delete(got, age) // which depends on how fast the test is
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func TestUnroutedRequestsHaveNoModel(t *testing.T) {
	tel, _ := start(t, newHouse())
	tel.RequestOffered("", true)
	tel.RequestDone(t.Context(), &predict.Event{Code: "NotFound", Stream: true})
	tel.RequestOffered("walker", false)
	tel.RequestDone(t.Context(), &predict.Event{Model: "walker", Code: "NotFound"})
	got := values(t, tel)
	for name, want := range map[string]string{
		"weft_requests_offered_total{method=PredictStream,model=}":                "1",
		"weft_requests_total{code=NotFound,method=PredictStream,model=,version=}": "1",
		"weft_requests_in_flight{method=PredictStream,model=}":                    "0",
		"weft_requests_total{code=NotFound,method=Predict,model=walker,version=}": "1",
		"weft_requests_in_flight{method=Predict,model=walker}":                    "0",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %s", name, got[name], want)
		}
	}
}

func TestProofAndWarmUpCountAsDeviceTimeOnly(t *testing.T) {
	h := newHouse()
	tel, _ := start(t, h)
	warmUp := batch
	warmUp.Version, warmUp.Device = 8, "synth"
	tel.BatchDone(warmUp)
	got := values(t, tel)
	const busy = "weft_device_busy_seconds_total{device=synth,model=walker,version=4}"
	if got[busy] != "0.02" {
		t.Errorf("%s is %q, want 0.02 s", busy, got[busy])
	}
	for name := range got {
		if strings.Contains(name, "version=4") && name != busy {
			t.Errorf("%s = %s: what no request waits for is not counted as served", name, got[name])
		}
	}

	ready := &catalog.Version{Model: "walker", Number: 4, State: catalog.Ready, Device: "synth", Scheduler: 8}
	h.publish(h.snapshot.Model("walker").Version(3), ready)
	tel.BatchDone(warmUp)
	tel.BatchDone(batch) // of version 3, to which no traffic leads any more
	got = values(t, tel)
	for name, want := range map[string]string{
		busy: "0.04",
		"weft_batch_size_per_flush{model=walker,version=4}":                           "1, sum 3",
		"weft_batch_flush_total{model=walker,reason=device_idle,slot=prod,version=4}": "1",
		"weft_batch_flush_total{model=walker,reason=device_idle,slot=,version=3}":     "1",
		"weft_batch_size_per_flush{model=walker,version=3}":                           "1, sum 3",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}

func TestVersionWithoutTrafficIsCountedOnceReady(t *testing.T) {
	h := newHouse()
	h.state.Versions = append(h.state.Versions, sharedsched.VersionState{ID: 9, Name: "walker/2"})
	tel, _ := start(t, h)
	older := batch
	older.Version = 9
	tel.BatchDone(older)
	h.publish(&catalog.Version{Model: "walker", Number: 2, State: catalog.Ready, Device: "cpu", Scheduler: 9},
		h.snapshot.Model("walker").Version(3))
	tel.BatchDone(older)
	const name = "weft_batch_size_per_flush{model=walker,version=2}"
	if got := values(t, tel)[name]; got != "1, sum 3" {
		t.Errorf("%s is %q, want the batch after it was ready", name, got)
	}
}

// TestReplicasAreOneVersion: the work of each device is shown apart, everything else is summed.
func TestReplicasAreOneVersion(t *testing.T) {
	h := newHouse()
	h.publish(&catalog.Version{
		Model: "walker", Number: 3, State: catalog.Ready, Device: "cpu", Scheduler: 7,
		Replicas: []catalog.Replica{{Device: "cpu", Scheduler: 7}, {Device: "synth", Scheduler: 8}},
	})
	h.state.Versions[1] = sharedsched.VersionState{ID: 8, Name: "walker/3", Queued: 4}
	tel, _ := start(t, h)
	other := batch
	other.Version, other.Device = 8, "synth"
	tel.BatchDone(batch)
	tel.BatchDone(other)
	got := values(t, tel)
	for name, want := range map[string]string{
		"weft_queue_depth{model=walker,slot=prod,version=3}":                  "9",
		"weft_batch_size_per_flush{model=walker,version=3}":                   "2, sum 6",
		"weft_device_busy_seconds_total{device=cpu,model=walker,version=3}":   "0.02",
		"weft_device_busy_seconds_total{device=synth,model=walker,version=3}": "0.02",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}

func TestGoneVersionsAreStillCounted(t *testing.T) {
	h := newHouse()
	tel, _ := start(t, h)
	tel.BatchDone(batch)
	h.publish()
	h.state.Versions = nil
	tel.BatchDone(batch)
	stranger := batch
	stranger.Version = 99
	tel.BatchDone(stranger)
	got := values(t, tel)
	for name, want := range map[string]string{
		"weft_batch_size_per_flush{model=walker,version=3}":                 "2, sum 6",
		"weft_device_busy_seconds_total{device=cpu,model=,version=}":        "0.02",
		"weft_device_busy_seconds_total{device=cpu,model=walker,version=3}": "0.04",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if depth, ok := got["weft_queue_depth{model=walker,slot=prod,version=3}"]; ok {
		t.Errorf("a version that is gone has a queue of %s", depth)
	}
}

func TestFailedAndUnmeasuredBatchesTeachNothing(t *testing.T) {
	tel, _ := start(t, newHouse())
	failed, unmeasured := batch, batch
	failed.Failed, unmeasured.Estimated = true, 0
	tel.BatchDone(failed)
	tel.BatchDone(unmeasured)
	got := values(t, tel)
	if ratio, ok := got["weft_cost_estimate_error_ratio{model=walker,version=3}"]; ok {
		t.Errorf("the ratio has %s", ratio)
	}
	if size := got["weft_batch_size_per_flush{model=walker,version=3}"]; size != "2, sum 6" {
		t.Errorf("batches counted: %s, want both", size)
	}
}

// reject has the models end a request with err. It returns how many requests of version 3 were counted as rejected so
// far, by why.
func reject(ctx context.Context, t *testing.T, tel *telemetry.Telemetry, models telemetry.Models, h *house,
	err error,
) map[string]string {
	t.Helper()
	h.err = err
	if got := models.Predict(ctx, &catalog.Call{Version: h.snapshot.Model("walker").Version(3)}); !errors.Is(got, err) {
		t.Errorf("%v, want %v", got, err)
	}
	counted := map[string]string{}
	for name, value := range values(t, tel) {
		if rest, ok := strings.CutPrefix(name, "weft_rejected_total{model=walker,reason="); ok {
			counted[strings.TrimSuffix(rest, ",version=3}")] = value
		}
	}
	return counted
}

func TestRejectionReasons(t *testing.T) {
	h := newHouse()
	tel, models := start(t, h)
	newer := errors.New("a newer request of this stream took over")
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(newer)
	var got map[string]string
	for _, err := range []error{
		&sharedsched.Refusal{Reason: sharedsched.RefusedQueueFull},
		&sharedsched.Refusal{Reason: sharedsched.RefusedDeadline},
		fmt.Errorf("wrapped: %w", &sharedsched.Refusal{Reason: sharedsched.RefusedForGoodput}),
		sharedsched.ErrExpired, sharedsched.ErrDraining, sharedsched.ErrClosed, sharedsched.ErrTooManyRows,
		context.DeadlineExceeded, newer,
	} {
		got = reject(gone, t, tel, models, h, err)
	}
	want := map[string]string{
		"QUEUE_FULL": "1", "DEADLINE_UNATTAINABLE": "1", "DROPPED_FOR_GOODPUT": "1", "EXPIRED": "2",
		"DRAINING": "1", "CLOSED": "1", "TOO_MANY_ROWS": "1", "CANCELLED": "1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rejections (-want +got):\n%s", diff)
	}
}

// TestNotRejected: a request that was executed, or is routed again, is not rejected.
func TestNotRejected(t *testing.T) {
	h := newHouse()
	tel, models := start(t, h)
	for _, err := range []error{
		&catalog.ModelError{Model: "walker", Version: 3, Err: context.DeadlineExceeded}, // the model's own
		catalog.ErrNotReady, sharedsched.ErrRemoved, catalog.ErrDeviceLost, errors.New("anything else"),
	} {
		if got := reject(t.Context(), t, tel, models, h, err); len(got) > 0 {
			t.Fatalf("%v: counted %v", err, got)
		}
	}
}

func TestUnansweredCallsHaveNoQueueWait(t *testing.T) {
	h := newHouse()
	h.err = sharedsched.ErrExpired
	tel, models := start(t, h)
	if err := models.Predict(t.Context(),
		&catalog.Call{Version: h.snapshot.Model("walker").Version(3)}); !errors.Is(err, h.err) {
		t.Errorf("error %v, want that of the models", err)
	}
	if wait, ok := values(t, tel)["weft_queue_wait_seconds{model=walker,version=3}"]; ok {
		t.Errorf("queue wait %s", wait)
	}
}

func TestObservingDoesNotAllocate(t *testing.T) {
	h := newHouse()
	tel, models := start(t, h)
	refusal := &sharedsched.Refusal{Reason: sharedsched.RefusedQueueFull}
	request := &predict.Event{Model: "walker", Version: 3, Code: "OK"}
	call := &catalog.Call{Version: h.snapshot.Model("walker").Version(3)}
	for name, observe := range map[string]func(){
		"BatchDone":   func() { tel.BatchDone(batch) },
		"RequestDone": func() { tel.RequestOffered(request.Model, request.Stream); tel.RequestDone(t.Context(), request) },
		"Predict":     func() { h.err = nil; _ = models.Predict(t.Context(), call) },
		"refusal":     func() { h.err = refusal; _ = models.Predict(t.Context(), call) },
	} {
		if n := testing.AllocsPerRun(100, observe); n > 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

func BenchmarkBatchDone(b *testing.B) {
	h := newHouse()
	tel, err := telemetry.New(b.Context(), telemetry.Config{Slot: slot})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := tel.Watch(h, h); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		tel.BatchDone(batch)
	}
}
