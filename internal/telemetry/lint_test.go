package telemetry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/weftserve/weft/internal/telemetry"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/sharedsched"
)

// excepted is all that linters may say of the page. Dashboards of other servers of the kind have both
// names; what they say is also there in seconds. See docs/reference/metrics.md.
var excepted = []string{
	"weft_batch_cost_per_flush_ms metric names should not contain abbreviated units",
	"weft_fairness_lag_ms metric names should not contain abbreviated units",
}

// busy returns the page, as text, of a server all of whose metrics there are, the Go runtime's included.
func busy(t *testing.T) []byte {
	t.Helper()
	h := newHouse()
	tel, err := telemetry.New(t.Context(), telemetry.Config{Version: "test", Slot: slot, Runtime: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tel.Shutdown(context.WithoutCancel(t.Context())) })
	models, err := tel.Watch(h, h)
	if err != nil {
		t.Fatal(err)
	}
	exercise(t, tel, models, h)
	return text(t, tel)
}

func text(t *testing.T, tel *telemetry.Telemetry) []byte {
	t.Helper()
	rec := httptest.NewRecorder()
	tel.MetricsHandler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if rec.Code != http.StatusOK {
		t.Fatalf("status %d: %s", rec.Code, rec.Body)
	}
	return rec.Body.Bytes()
}

func TestLinter(t *testing.T) {
	problems, err := promlint.New(bytes.NewReader(busy(t))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, p := range problems {
		got = append(got, p.Metric+" "+p.Text)
	}
	slices.Sort(got)
	if diff := cmp.Diff(excepted, got); diff != "" {
		t.Errorf("problems of the page (-allowed +found):\n%s", diff)
	}
}

// TestPromtool has the program that operators have lint the page, where it is installed.
func TestPromtool(t *testing.T) {
	tool, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("FLEET_REQUIRED") != "" {
			t.Fatal(err)
		}
		t.Skip("promtool is not installed (FLEET_REQUIRED=1 makes this fail): ", err)
	}
	check := exec.CommandContext(t.Context(), tool, "check", "metrics")
	check.Stdin = bytes.NewReader(busy(t))
	out, err := check.CombinedOutput()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(got)
	if diff := cmp.Diff(excepted, got); diff != "" {
		t.Errorf("promtool check metrics (-allowed +found):\n%s", diff)
	}
}

// TestLinesOfAModel: a model of two versions that were split, whose sides changed, and whose requests ended in many
// ways has few lines on the page.
func TestLinesOfAModel(t *testing.T) {
	h := newHouse()
	first := &catalog.Version{Model: "walker", Number: 3, State: catalog.Ready, Device: "cpu", Scheduler: 7}
	second := &catalog.Version{Model: "walker", Number: 4, State: catalog.Ready, Device: "cpu", Scheduler: 8}
	tel, models := start(t, h)
	for range 2 {
		h.publish(first, second)
		for _, v := range []*catalog.Version{first, second} {
			for _, code := range []string{"OK", "DeadlineExceeded", "ResourceExhausted", "Canceled", "Internal"} {
				for _, stream := range []bool{false, true} {
					tel.RequestOffered("walker", stream)
					tel.RequestDone(t.Context(), &predict.Event{
						Model: "walker", Version: v.Number, Code: code, Duration: time.Millisecond, Stream: stream,
					})
				}
			}
			for reason := sharedsched.FlushFull; reason <= sharedsched.FlushDeadline; reason++ {
				b := batch
				b.Version, b.Reason = sharedsched.VersionID(v.Scheduler), reason
				tel.BatchDone(b)
			}
			h.err = nil
			if err := models.Predict(t.Context(), &catalog.Call{Version: v}); err != nil {
				t.Fatal(err)
			}
		}
		first, second = second, first
	}
	of := map[string]int{}
	all := 0
	for line := range strings.Lines(string(text(t, tel))) {
		if strings.Contains(line, `model="walker"`) {
			name, _, _ := strings.Cut(line, "{")
			of[name]++
			all++
		}
	}
	const most = 340
	if all > most || all < most/2 {
		t.Errorf("%d lines, want up to %d: %s", all, most, fmt.Sprint(of))
	}
}
