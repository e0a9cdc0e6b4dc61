package app

import (
	"bufio"
	"context"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// TestThePageAgreesWithTheMetrics: what the live page shows of a server that has rested for a moment is what its
// metrics have, and the time in which versions used a device is the time in which it was used.
func TestThePageAgreesWithTheMetrics(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 5 seconds")
	}
	r := serve(t, map[string]string{
		"quick": `{synth: {base: 4ms, per_row: 100us, ` + tensors + `}, target_latency: 30ms}`,
		"long":  `{synth: {base: 30ms, ` + tensors + `}, batching: {max_queue: 2}, max_latency: 100ms}`,
	})
	r.awaitReady(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var busy sync.WaitGroup
	for i := range 12 {
		busy.Go(func() {
			client := weftv1.NewPredictionServiceClient(r.conn)
			for ctx.Err() == nil {
				name := "quick"
				if i%2 == 0 {
					name = "long"
				}
				if i == 3 {
					name = "nonesuch"
				}
				short, leave := context.WithTimeout(ctx, time.Duration(20+10*i)*time.Millisecond)
				_, _ = client.Predict(short, weftest.Request(name, float32(i)))
				leave()
			}
		})
	}
	busy.Wait()
	var a *weftv1.Activity
	weftest.Until(t, "a server that rests", func() bool {
		a = activityOf(t, r.http)
		for _, n := range a.GetTotals() {
			if n.GetInFlight() > 0 {
				return false
			}
		}
		return len(a.GetRunning()) == 0
	})
	page := metricsOf(t, r.http)

	of := func(metric string, labels ...string) (sum float64) { return sumOf(page, metric, labels...) }
	if len(a.GetTotals()) != 3 {
		t.Errorf("there are totals of %d models, want 3", len(a.GetTotals()))
	}
	for name, n := range a.GetTotals() {
		ended := n.GetAnswered() + n.GetRefused() + n.GetExpired() + n.GetCancelled() + n.GetFailed()
		if n.GetOffered() != ended || n.GetOffered() != of("weft_requests_offered_total", "model", name) ||
			n.GetAnswered() != of("weft_requests_total", "model", name, "code", "OK") ||
			n.GetExpired() != of("weft_requests_total", "model", name, "code", "DeadlineExceeded") || ended == 0 {
			t.Errorf("of %q: %v, the metrics have other numbers", name, n)
		}
	}
	var used float64
	for _, v := range a.GetVersions() {
		n, name := v.GetTotals(), v.GetModel()
		used += n.GetBusySeconds()
		if metric := of("weft_device_busy_seconds_total", "model", name); math.Abs(n.GetBusySeconds()-metric) > 1e-6 {
			t.Errorf("%s used %v s, the metrics say %v", name, n.GetBusySeconds(), metric)
		}
		for reason, count := range n.GetFlushes() {
			if metric := of("weft_batch_flush_total", "model", name, "reason", reason); metric != count {
				t.Errorf("%s ran %v batches for %s, the metrics say %v", name, count, reason, metric)
			}
		}
		if n.GetBatches() != of("weft_batch_flush_total", "model", name) ||
			n.GetPaddedRows() != of("weft_padding_rows_total", "model", name) || n.GetRows() == 0 {
			t.Errorf("%s: %v, the metrics have other numbers", name, n)
		}
	}
	state, err := weftv1.NewModelServiceClient(r.conn).GetSchedulerState(t.Context(),
		&weftv1.GetSchedulerStateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range state.GetState().GetDevices() {
		if d.GetName() == synthDevice && math.Abs(d.GetBusyMs()/1e3-used) > used/100 {
			t.Errorf("the device was used for %v ms, versions used %v ms of it", d.GetBusyMs(), used*1e3)
		}
	}
	if shown := a.GetDevices()[0].GetBusySeconds(); math.Abs(shown-used) > 1e-6 {
		t.Errorf("the device is shown as used for %v s, versions used %v s of it", shown, used)
	}
}

// activityOf returns what the live page is sent first.
func activityOf(t *testing.T, server string) *weftv1.Activity {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server+"/live/activity", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
			a := &weftv1.Activity{}
			if err := protojson.Unmarshal([]byte(data), a); err != nil {
				t.Fatal(err)
			}
			return a
		}
	}
	t.Fatal(lines.Err())
	return nil
}

// metricsOf returns the page of metrics.
func metricsOf(t *testing.T, server string) map[string]*dto.MetricFamily {
	t.Helper()
	resp, err := http.Get(server + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	page, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// sumOf returns the sum of a metric's values that have some labels, given as names and values.
func sumOf(page map[string]*dto.MetricFamily, metric string, labels ...string) (sum float64) {
	for _, m := range page[metric].GetMetric() {
		have := map[string]string{}
		for _, l := range m.GetLabel() {
			have[l.GetName()] = l.GetValue()
		}
		all := true
		for i := 0; i < len(labels); i += 2 {
			all = all && have[labels[i]] == labels[i+1]
		}
		if all {
			sum += m.GetCounter().GetValue()
		}
	}
	return sum
}
