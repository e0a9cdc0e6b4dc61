package fleet

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	golden = "../../internal/telemetry/testdata/metrics.txt"
	board  = "../../deploy/grafana/weft.json"
	alerts = "../../deploy/prometheus/alerts.yaml"
	trials = "../../deploy/prometheus/alerts_test.yaml"
	page   = "../../docs/operations/monitoring.md"
)

func known(t *testing.T) map[string]metric {
	t.Helper()
	all, err := readMetrics(golden)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Fatalf("%s has %d series only", golden, len(all))
	}
	return all
}

func TestDashboard(t *testing.T) {
	for _, complaint := range dashboardIn(board, known(t)) {
		t.Error(complaint)
	}
}

func TestAlerts(t *testing.T) {
	for _, complaint := range alertsIn(alerts, trials, page, known(t)) {
		t.Error(complaint)
	}
}

// promtool runs the program that comes with Prometheus.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	tool := os.Getenv("PROMTOOL")
	if tool == "" {
		found, err := exec.LookPath("promtool")
		if err != nil {
			const how = "promtool is not installed (Debian has it in the package prometheus; PROMTOOL names another): "
			if os.Getenv("FLEET_REQUIRED") != "" {
				t.Fatal(how, err)
			}
			t.Skip("NOTHING WAS CHECKED, which FLEET_REQUIRED=1 makes a failure: ", how, err)
		}
		tool = found
	}
	if out, err := exec.CommandContext(t.Context(), tool, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestPromtoolChecksTheRules(t *testing.T) { promtool(t, "check", "rules", alerts) }

func TestPromtoolTestsTheRules(t *testing.T) { promtool(t, "test", "rules", trials) }

// TestComplaints: each of these expressions is wrong, by what is said of it; "" is not.
func TestComplaints(t *testing.T) {
	c := &checker{metrics: known(t)}
	for expr, want := range map[string]string{
		`weft_queue_depth{slot="prod"}`: "",
		`weft_queue_deep`:               "no server has this metric",
		`sum by (model) (rate(weft_requests_total{codes="OK"}[5m]))`:               "no label codes",
		`rate(weft_request_duration_seconds_bucket{code="OK"}[5m])`:                "no label code",
		`sum by (slot) (rate(weft_request_duration_seconds_count[5m]))`:            "no label slot",
		`rate(weft_queue_depth[5m])`:                                               "is a gauge",
		`weft_gpu_power_watts / weft_gpu_power_limit_watts`:                        "divides by what may be 0",
		`weft_gpu_power_watts / (weft_gpu_power_limit_watts > 0)`:                  "",
		`weft_gpu_power_watts / clamp_min(weft_gpu_power_limit_watts, 1)`:          "",
		`histogram_quantile(0.9, rate(weft_queue_wait_seconds_bucket[5m]))`:        "is not a number",
		`histogram_quantile(0.9, rate(weft_queue_wait_seconds_bucket[5m])) >= 0`:   "",
		`weft_worker_memory_bytes * on (slot) group_left () weft_models`:           "no label slot",
		`count by (instance) ({__name__=~"weft_.+", otel_metric_overflow="true"})`: "",
		`sum(`: "parse error",
	} {
		_, got := c.expression(expr)
		if said := strings.Join(got, "; "); want == "" && said != "" || !strings.Contains(said, want) {
			t.Errorf("%s: %q, want %q", expr, said, want)
		}
	}
}

// TestComplaintsOfFiles: what is changed so in the files is found.
func TestComplaintsOfFiles(t *testing.T) {
	metrics := known(t)
	changed := func(file, old, with string) string {
		t.Helper()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), old) {
			t.Fatalf("%s has no %q", file, old)
		}
		name := filepath.Join(t.TempDir(), filepath.Base(file))
		if err := os.WriteFile(name, []byte(strings.Replace(string(text), old, with, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, tt := range []struct{ file, old, with, want string }{
		{board, `code=\"OK\"`, `code=\"OK\",slot=\"prod\"`, "no label slot"},
		{board, `(weft_models{cluster=~\"$cluster\",`, `(weft_models{`, `lacks cluster=~"$cluster"`},
		{board, `model=~\"$model\",version=~\"$version\",code`, `version=~\"$version\",code`, `lacks model=~"$model"`},
		{board, `instance=~\"$replica\",state`, `job=\"weft\",state`, `lacks instance=~"$replica"`},
		{board, `"name": "replica"`, `"name": "pod"`, "variables: [cluster pod model version]"},
		{board, `"query": "label_values(weft_build_info, cluster)"`, `"query": "x"`, "is not label_values"},
		{board, `$cluster\"}, instance)`, `$cluster\"}, model)`, "is not label_values"},
		{board, `http://${replica}/live/`, `http://elsewhere/`, "links: none leads"},
		{board, `"exemplar": true`, `"exemplar": false`, "exemplars are false"},
		{board, `"title": "Latency and queues"`, `"title": "Latency"`, "rows:"},
		{board, `hears of."`, `hears of. More."`, "is not one sentence"},
		{board, `"id": 3,`, `"id": 2,`, "has the id 2, too"},
		{board, `"x": 4,`, `"x": 3,`, "overlaps"},
		{alerts, "severity: critical", "severity: bad", "severity"},
		{alerts, "does not answer: no metrics for two minutes.", "is down", "is no sentence"},
		{alerts, "{{ $labels.device }}", "{{ $labels.gpu }}", "names the label gpu"},
		{alerts, "#weftreplicadown", "#down", "is no row"},
		{alerts, "#weftreplicadown", "#weftunfair", "is no row"},
		{alerts, "alert: WeftUnfair", "alert: WeftFair", "does not try"},
		{trials, "WeftUnfair\n        exp_alerts: []", "WeftUnfair\n        exp_alerts: [{}]", "does not try"},
		{trials, "alertname: WeftUnfair", "alertname: WeftFair", "which there is not"},
	} {
		of := map[string]string{board: board, alerts: alerts, trials: trials}
		of[tt.file] = changed(tt.file, tt.old, tt.with)
		var got []string
		if tt.file == board {
			got = dashboardIn(of[board], metrics)
		} else {
			got = alertsIn(of[alerts], of[trials], page, metrics)
		}
		if said := strings.Join(got, "\n"); !strings.Contains(said, tt.want) {
			t.Errorf("%s with %q for %q: complaints %q, want %q", tt.file, tt.with, tt.old, said, tt.want)
		}
	}
}
