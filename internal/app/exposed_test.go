package app

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/sharedsched"
)

// TestATargetThatCannotBeKeptIsTold: 20 ms beside batches of 80 ms, which cannot be cut, are in the log with the names
// of both flows.
func TestATargetThatCannotBeKeptIsTold(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 5 seconds")
	}
	r := serve(t, map[string]string{
		"quick": `{synth: {base: 1ms, ` + tensors + `}, target_latency: 20ms, batching: {mode: "off"}}`,
		"long":  `{synth: {base: 80ms, ` + tensors + `}, batching: {mode: "off"}}`,
	})
	r.awaitReady(t)
	var told []slog.Record
	weftest.Until(t, "a record of both flows", func() bool {
		for _, model := range []string{"quick", "long"} {
			if ended, errs := weftest.Predict(t.Context(), r.conn, model, "x", 1); ended[codes.OK] != 1 {
				t.Fatalf("%s: %v", model, errs)
			}
		}
		told = r.warnings.Event("target_unattainable")
		return len(told) > 0
	})
	attr := func(key string) slog.Value { return weftest.Attr(told[0], key) }
	if got := fmt.Sprint(attr("device"), attr("flow"), attr("beside")); got != "synth quick@1 long@1" {
		t.Errorf("told of %s", got)
	}
	target, batch := attr("target").Duration(), attr("batch").Duration()
	if target > 20*time.Millisecond || target < 17*time.Millisecond {
		t.Errorf("a target of %v, want 20ms or a step less", target)
	}
	if batch <= target {
		t.Errorf("a batch of %v, want one that is longer than the target of %v", batch, target)
	}
}

// TestAnExposedTargetIsToldOnce: once an hour for each two flows, on whichever device.
func TestAnExposedTargetIsToldOnce(t *testing.T) {
	var log weftest.Log
	e := exposures{slog.New(&log), map[[2]string]time.Time{}}
	now, want := time.Time{}, 0
	look := func(what string, after time.Duration, records int, devices ...sharedsched.DeviceState) {
		t.Helper()
		now, want = now.Add(after), want+records
		e.look(now, devices)
		if got := len(log.Event("target_unattainable")); got != want {
			t.Errorf("%s: %d records, want %d", what, got, want)
		}
	}
	on := func(device, flow, beside string) (d sharedsched.DeviceState) {
		d.Name, d.Exposed = device, sharedsched.Exposure{Flow: flow, Beside: beside}
		return d
	}
	look("no pair", 0, 0, on("cpu", "", ""))
	look("a pair", 0, 1, on("cpu", "a", "b"))
	look("the same, and on another device", time.Minute, 0, on("cpu", "a", "b"), on("cuda:0", "a", "b"))
	look("another flow beside it", time.Minute, 1, on("cpu", "a", "c"))
	look("the other way round", time.Minute, 1, on("cpu", "b", "a"))
	look("the first in the last minute", 56*time.Minute, 0, on("cpu", "a", "b"))
	look("after an hour", time.Minute, 1, on("cpu", "a", "b"))
	look("the second, not yet", 0, 0, on("cpu", "a", "c"))
	look("all after two hours", 2*time.Hour, 2, on("cpu", "a", "b"), on("cuda:0", "a", "c"))
	if len(e.told) != 2 {
		t.Errorf("%d pairs are remembered, want 2", len(e.told))
	}
}
