package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftserve/weft/tools/lab/harness"
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
# TYPE weft_gpu_clock_event gauge
weft_gpu_clock_event{device="cuda:0",reason="sw_power_cap"} 1
weft_gpu_clock_event{device="cuda:0",reason="gpu_idle"} 0
weft_gpu_clock_event{device="cuda:1",reason="hw_thermal"} 1
`

// pageServer is a server that has nothing but its metrics.
func pageServer(t *testing.T, page string) *server {
	t.Helper()
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, page) }))
	t.Cleanup(pages.Close)
	return &server{dir: t.TempDir(), Server: &harness.Server{HTTP: strings.TrimPrefix(pages.URL, "http://")}}
}

// standInForSMI puts a program in the place of nvidia-smi that answers each field with the value that is there for it,
// and knows no others.
func standInForSMI(t *testing.T, values map[string]string) {
	t.Helper()
	bin := t.TempDir()
	var cases strings.Builder
	for field, value := range values {
		fmt.Fprintf(&cases, "%s) value='%s' ;;\n", field, value)
	}
	script := "#!/bin/sh\n[ \"$1\" = --id=GPU-1 ] || { echo 'No devices were found'; exit 6; }\nline=\n" +
		"for field in $(echo \"${2#--query-gpu=}\" | tr , ' '); do\ncase $field in\n" + cases.String() +
		"*) echo \"Field \\\"$field\\\" is not a valid field to query.\"; exit 2 ;;\nesac\nline=\"${line:+$line, " +
		"}$value\"\ndone\necho \"$line\"\n"
	if err := os.WriteFile(filepath.Join(bin, "nvidia-smi"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
}

// newReport is one that is written nowhere else.
func newReport(t *testing.T) *report {
	t.Helper()
	return &report{dir: t.TempDir(), progress: t.Output()}
}

// smiSays is the answer of a stand-in for nvidia-smi. It agrees with the server but for the power; the device counts no
// memory errors, and the program is too old to know of the highest clock.
func smiSays() map[string]string {
	return map[string]string{
		"clocks.sm": "1965", "memory.total": "143771", "memory.used": "1030", "memory.free": "142000",
		"utilization.gpu": "100",
		"power.draw":      "300.00", "enforced.power.limit": "700.00", "temperature.gpu": "60",
		"ecc.errors.uncorrected.volatile.total": "[N/A]",
		"clocks_throttle_reasons.active":        "0x0000000000000004",
	}
}

func TestTelemetryIsComparedWithSMI(t *testing.T) {
	standInForSMI(t, smiSays())
	s := &suite{options: &options{Device: "cuda:0"}, report: newReport(t)}
	if err := s.compareTelemetry(t.Context(), pageServer(t, gpuPage), 3, 0); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.report.rows {
		want := passed
		switch r.Check {
		case "telemetry: power_watts":
			want = failed
		case "telemetry: ecc_errors_total", "telemetry: clock_max_hertz":
			want = skipped
		}
		if r.Verdict != want {
			t.Errorf("%s is %q, want %q", r.Check, r.Verdict, want)
		}
	}
	if len(s.report.rows) != len(readings)+2 {
		t.Errorf("%d rows, want one for each of %d values, one for their age, and one for the reasons",
			len(s.report.rows), len(readings))
	}
}

// TestWhatTheServerDoesNotTellFails: nvidia-smi reports a value that the server lacks, and a reason that the server
// does not know.
func TestWhatTheServerDoesNotTellFails(t *testing.T) {
	values := smiSays()
	values["clocks_throttle_reasons.active"] = "0x0000000000000024" // sw_thermal as well
	standInForSMI(t, values)
	s := &suite{options: &options{Device: "cuda:0"}, report: newReport(t)}
	lacking := strings.ReplaceAll(gpuPage, "weft_gpu_temperature_celsius", "weft_gpu_warmth")
	if err := s.compareTelemetry(t.Context(), pageServer(t, lacking), 2, 0); err != nil {
		t.Fatal(err)
	}
	for check, want := range map[string]string{
		"telemetry: temperature": failed, "telemetry: clock_event": failed, "telemetry: clock_hertz": passed,
		"telemetry: age": passed,
	} {
		if got := verdictOf(t, s.report.rows, check); got != want {
			t.Errorf("%s is %q, want %q", check, got, want)
		}
	}
}

// TestTelemetryWithoutSMI: where it is not there, or the device is a part of a GPU, there is nothing to compare with.
func TestTelemetryWithoutSMI(t *testing.T) {
	for name, page := range map[string]string{
		"not there": gpuPage,
		"a part":    strings.ReplaceAll(gpuPage, "GPU-1", partPrefix+"1"),
	} {
		t.Run(name, func(t *testing.T) {
			if name == "not there" {
				t.Setenv("PATH", t.TempDir())
			} else {
				standInForSMI(t, smiSays())
			}
			s := &suite{options: &options{Device: "cuda:0"}, report: newReport(t)}
			if err := s.compareTelemetry(t.Context(), pageServer(t, page), 1, 0); err != nil {
				t.Fatal(err)
			}
			if len(s.report.rows) != 1 || s.report.rows[0].Verdict != skipped {
				t.Errorf("rows %v, want one that says why nothing was compared", s.report.rows)
			}
		})
	}
}

func TestGraphHitsAreJudged(t *testing.T) {
	const page = `# TYPE weft_captured_graph_hit_rate gauge
weft_captured_graph_hit_rate{model="good",version="1"} 0
weft_captured_graph_hit_rate{model="good_graphs",version="1"} 0.95
weft_captured_graph_hit_rate{model="bad",version="1"} 0.1
weft_captured_graph_hit_rate{model="bad_graphs",version="1"} 0.5
`
	s := &suite{options: &options{Device: "cuda:0"}, bounds: gpuBounds, report: newReport(t)}
	for _, model := range []string{"good", "bad"} {
		if err := s.reportHits(t.Context(), pageServer(t, page), &contest{model: model, set: graphsSetting}); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{passed, passed, failed, failed} {
		if got := s.report.rows[i]; got.Verdict != want {
			t.Errorf("%s: %q, want %q", got.Check, got.Verdict, want)
		}
	}
}
