package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const gpuPage = `# TYPE weft_gpu_info gauge
weft_gpu_info{device="cuda:0",uuid="GPU-1",product="a stand-in"} 1
# TYPE weft_gpu_sample_age_seconds gauge
weft_gpu_sample_age_seconds{device="cuda:0"} 0.15
# TYPE weft_gpu_clock_hertz gauge
weft_gpu_clock_hertz{device="cuda:0"} 1.98e+09
# TYPE weft_gpu_clock_max_hertz gauge
weft_gpu_clock_max_hertz{device="cuda:0"} 1.98e+09
# TYPE weft_gpu_memory_total_bytes gauge
weft_gpu_memory_total_bytes{device="cuda:0"} 1.50754820096e+11
# TYPE weft_gpu_memory_used_bytes gauge
weft_gpu_memory_used_bytes{device="cuda:0"} 1.073741824e+09
# TYPE weft_gpu_memory_free_bytes gauge
weft_gpu_memory_free_bytes{device="cuda:0"} 1.49e+11
# TYPE weft_gpu_utilization_ratio gauge
weft_gpu_utilization_ratio{device="cuda:0"} 0.99
# TYPE weft_gpu_power_watts gauge
weft_gpu_power_watts{device="cuda:0"} 512.5
# TYPE weft_gpu_power_limit_watts gauge
weft_gpu_power_limit_watts{device="cuda:0"} 700
# TYPE weft_gpu_temperature_celsius gauge
weft_gpu_temperature_celsius{device="cuda:0"} 61
# TYPE weft_gpu_ecc_errors_total counter
weft_gpu_ecc_errors_total{device="cuda:0"} 0
`

// pageServer is a server of which there is nothing but its metrics.
func pageServer(t *testing.T, page string) *server {
	t.Helper()
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, page) }))
	t.Cleanup(pages.Close)
	return &server{dir: t.TempDir(), http: strings.TrimPrefix(pages.URL, "http://")}
}

// TestTelemetryIsComparedWithSMI has a stand-in for nvidia-smi that agrees with the server but for the power, and does not know of ECC.
func TestTelemetryIsComparedWithSMI(t *testing.T) {
	bin := t.TempDir()
	const script = "#!/bin/sh\n[ \"$1\" = --id=GPU-1 ] && echo '1965, 1980, 143771, 1030, 142000, 100, 300.00, 700.00, 60, [N/A]'\n"
	if err := os.WriteFile(filepath.Join(bin, "nvidia-smi"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	s := &suite{options: &options{Device: "cuda:0"}, report: &report{}}
	if err := s.compareTelemetry(t.Context(), pageServer(t, gpuPage), 3, 0); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + s.report.table())
	for _, r := range s.report.rows {
		want := passed
		switch r.Check {
		case "telemetry: power_watts":
			want = failed
		case "telemetry: ecc_errors_total":
			want = skipped
		}
		if r.Verdict != want {
			t.Errorf("%s is %q, want %q", r.Check, r.Verdict, want)
		}
	}
	if len(s.report.rows) != len(readings)+1 {
		t.Errorf("%d rows, want one for each of %d values and one for their age", len(s.report.rows), len(readings))
	}
}

func TestGraphHitsAreJudged(t *testing.T) {
	const page = `# TYPE weft_captured_graph_hit_rate gauge
weft_captured_graph_hit_rate{model="good",version="1"} 0.95
weft_captured_graph_hit_rate{model="bad",version="1"} 0.5
weft_captured_graph_hit_rate{model="plain",version="1"} 0
weft_captured_graph_hit_rate{model="surprise",version="1"} 0.1
`
	s := &suite{bounds: gpuBounds, report: &report{}}
	variants := []variant{{"good", graphsSetting}, {"bad", graphsSetting}, {"plain", ""}, {"surprise", ""}}
	if err := s.reportHits(t.Context(), pageServer(t, page), variants); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{passed, failed, passed, failed} {
		if got := s.report.rows[i].Verdict; got != want {
			t.Errorf("%s: %q, want %q", variants[i].model, got, want)
		}
	}
}
