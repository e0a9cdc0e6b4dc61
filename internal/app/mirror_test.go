package app

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// TestShadowsAreCountedApart overloads a shadow: dropped copies of requests count as such, and not as requests that
// were rejected.
func TestShadowsAreCountedApart(t *testing.T) {
	repository := t.TempDir()
	for version := 1; version <= 2; version++ {
		weftest.AddVersion(t, repository, "walker", version)
	}
	weftest.SetManifest(t, repository, "walker", `
synth: {base: 5ms, `+tensors+`}
batching: {mode: "off", max_queue: 2}
versions: {policy: all}
traffic:
  split: [{slot: a, version: 1, weight: 1}]
  shadow: [{version: 2, tolerances: {y: 0.25}}]
`)
	r := serveFrom(t, repository, nil)
	r.until(t, "both versions are ready", func(m *weftv1.Model) bool { return ready(m) == "[1 2]" })
	const requests = 20
	began := time.Now()
	for range requests {
		if _, err := weftv1.NewPredictionServiceClient(r.conn).Predict(t.Context(),
			weftest.Request("walker", 1)); err != nil {
			t.Fatal(err)
		}
	}
	client := weftv1.NewModelServiceClient(r.conn)
	var seen *weftv1.ShadowSummary
	for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C { // a request is shown after it was answered
		shadows, err := client.GetShadowSummary(t.Context(), &weftv1.GetShadowSummaryRequest{Model: "walker"})
		if err != nil || len(shadows.GetSummaries()) > 1 {
			t.Fatalf("%v, %v; want one summary", shadows, err)
		}
		if all := shadows.GetSummaries(); len(all) == 1 {
			seen = all[0]
		}
		if seen.GetOffered() >= requests || time.Since(began) > weftest.Patience {
			break
		}
	}
	if seen.GetOffered() != requests || seen.GetDropped() == 0 {
		t.Errorf("%d offered, %d dropped; want %d and some", seen.GetOffered(), seen.GetDropped(), requests)
	}
	traffic, err := client.GetTraffic(t.Context(), &weftv1.GetTrafficRequest{Model: "walker"})
	if err != nil || traffic.GetTraffic().GetShadow()[0].GetTolerances()["y"] != 0.25 {
		t.Errorf("%v, %v; want the tolerance of model.yaml", traffic, err)
	}
	_, page := r.get(t, "/metrics")
	for _, want := range []string{
		`weft_shadow_requests_total{model="walker",outcome="dropped",version="2"} `,
		`weft_model_loads_total{outcome="ready"} 2` + "\n",
		`weft_model_loads_total{outcome="failed"} 0` + "\n", "weft_model_unloads_total 0\n", "weft_model_memory_bytes ",
		"weft_model_memory_budget_bytes 0\n", "weft_shadow_log_lines_lost_total 0\n",
	} {
		if !strings.Contains(page, "\n"+want) {
			t.Errorf("the metrics page lacks %s", want)
		}
	}
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "weft_rejected_total{") {
			t.Errorf("every request was answered, but %s", line)
		}
	}
}

// TestAuditsSetTheFloor: rows of live batches that are run alone show how a version differs from itself, and shadows
// are measured by that. Requests of several rows are padded to executions of eight, so that something can be audited.
func TestAuditsSetTheFloor(t *testing.T) {
	repository := t.TempDir()
	for version := 1; version <= 2; version++ {
		weftest.AddVersion(t, repository, "walker", version)
	}
	weftest.SetManifest(t, repository, "walker", `
synth: {base: 1ms, `+tensors+`}
batching: {mode: "on", audit: 0.5, max_batch_size: 8, allowed_batch_sizes: [8]}
versions: {policy: all}
traffic:
  split: [{slot: a, version: 1, weight: 1}]
  shadow: [{version: 2}]
`)
	r := serveFrom(t, repository, nil)
	r.until(t, "both versions are ready", func(m *weftv1.Model) bool { return ready(m) == "[1 2]" })
	main, admin := weftv1.NewModelServiceClient(r.conn), weftv1.NewModelServiceClient(r.admin)
	ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
	defer cancel()
	var latest *weftv1.GetShadowSummaryResponse
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for n := 1; ; n++ {
		if <-tick.C; n%20 == 0 {
			<-time.After(time.Second) // copies run in spare time: on a busy machine there is little between requests
		}
		if _, err := weftv1.NewPredictionServiceClient(r.conn).Predict(ctx,
			weftest.Request("walker", 3)); err != nil {
			t.Fatalf("%v; at last there was %v", err, latest)
		}
		ask := &weftv1.GetShadowSummaryRequest{Model: "walker", Fingerprints: true, Worst: true}
		answer, err := main.GetShadowSummary(ctx, ask)
		if err != nil {
			t.Fatal(err)
		}
		latest = answer
		if all := answer.GetSummaries(); len(all) == 1 && len(all[0].GetOutputs()) == 1 {
			y := all[0].GetOutputs()[0]
			f := y.GetFingerprint()
			full := slices.ContainsFunc(f.GetSlices(), func(s *weftv1.FingerprintSlice) bool { return s.GetRows() >= 3 })
			if f.GetAuditedRows() > 0 && y.GetNoise().GetEqual() == f.GetAuditedRows() && full &&
				f.GetElements()[0].GetFloor() > 0 && y.GetErrors().GetEqual() > 0 &&
				f.GetElements()[0].GetFloorSource() == weftv1.FloorSource_FLOOR_SOURCE_LEAST_AUDITED {
				if open, err := admin.GetShadowSummary(ctx, ask); err != nil ||
					open.GetSummaries()[0].GetWorstWithheld() || !all[0].GetWorstWithheld() {
					t.Errorf("rows are withheld at the admin listener, or shown at the other: %v, %v", open, err)
				}
				return
			}
		}
	}
}
