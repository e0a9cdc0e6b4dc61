package app

import (
	"bufio"
	"context"
	"fmt"
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
		"long":  `{synth: {base: 12ms, ` + tensors + `}, batching: {max_queue: 2}, max_latency: 100ms}`,
	})
	r.awaitReady(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var busy sync.WaitGroup
	for i := range 12 {
		busy.Go(func() {
			client := weftv1.NewPredictionServiceClient(r.conn)
			for n := 0; ctx.Err() == nil; n++ {
				name := "quick"
				if i%2 == 0 {
					name = "long"
				}
				if i == 3 {
					name = "nonesuch"
				}
				if i == 3 && n == 100 {
					return // a connection that goes on with such requests ends
				}
				short, leave := context.WithTimeout(ctx, time.Duration(20+10*i)*time.Millisecond)
				_, _ = client.Predict(short, weftest.Request(name, float32(i)))
				leave()
			}
		})
	}
	busy.Wait()
	// What callers gave up may still arrive: the two are compared until they agree.
	var wrong []string
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(strings.Join(wrong, "\n"))
		}
	})
	weftest.Until(t, "a page and metrics with the same numbers", func() bool {
		a := activityOf(t, r.http)
		wrong = disagreements(a, metricsOf(t, r.http))
		state, err := weftv1.NewModelServiceClient(r.conn).GetSchedulerState(t.Context(),
			&weftv1.GetSchedulerStateRequest{})
		if err != nil {
			t.Fatal(err)
		}
		shown := a.GetDevices()[0].GetBusySeconds()
		for _, d := range state.GetState().GetDevices() {
			if d.GetName() == synthDevice && math.Abs(d.GetBusyMs()/1e3-shown) > shown/100 {
				wrong = append(wrong, fmt.Sprintf("the device was used for %v ms, the page shows %v s", d.GetBusyMs(), shown))
			}
		}
		return len(wrong) == 0
	})
}

// disagreements returns what a page says that a server's metrics do not. The server has rested: requests in flight are
// told as well.
func disagreements(a *weftv1.Activity, page map[string]*dto.MetricFamily) (wrong []string) {
	want := func(of, what string, shown float64, metric string, labels ...string) {
		if measured := sumOf(page, metric, append(labels, "model", of)...); math.Abs(shown-measured) > 1e-6 {
			wrong = append(wrong, fmt.Sprintf("%q: %s are %v on the page, %v in the metrics", of, what, shown, measured))
		}
	}
	if len(a.GetRunning()) > 0 || len(a.GetTotals()) != 3 {
		wrong = append(wrong, fmt.Sprintf("there are %d batches running, and totals of %d models, want 0 and 3",
			len(a.GetRunning()), len(a.GetTotals())))
	}
	for name, n := range a.GetTotals() {
		ended := n.GetAnswered() + n.GetRefused() + n.GetExpired() + n.GetCancelled() + n.GetFailed()
		if ended == 0 || n.GetOffered() != ended {
			wrong = append(wrong, fmt.Sprintf("%q: of %v requests, %v have ended", name, n.GetOffered(), ended))
		}
		want(name, "offered", n.GetOffered(), "weft_requests_offered_total")
		want(name, "answered", n.GetAnswered(), "weft_requests_total", "code", "OK")
		want(name, "expired", n.GetExpired(), "weft_requests_total", "code", "DeadlineExceeded")
	}
	var used float64
	for _, v := range a.GetVersions() {
		n, name := v.GetTotals(), v.GetModel()
		used += n.GetBusySeconds()
		if n.GetRows() == 0 {
			wrong = append(wrong, fmt.Sprintf("%q: no row ran", name))
		}
		want(name, "seconds", n.GetBusySeconds(), "weft_device_busy_seconds_total")
		want(name, "batches", n.GetBatches(), "weft_batch_flush_total")
		want(name, "padded rows", n.GetPaddedRows(), "weft_padding_rows_total")
		for reason, count := range n.GetFlushes() {
			want(name, "batches for "+reason, count, "weft_batch_flush_total", "reason", reason)
		}
	}
	if shown := a.GetDevices()[0].GetBusySeconds(); math.Abs(shown-used) > 1e-6 {
		wrong = append(wrong, fmt.Sprintf("the device was used for %v s, by versions for %v s", shown, used))
	}
	return wrong
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
