package bench

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelfile"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/synth"
)

// synthHouse is a house whose models are latency curves that share a device.
type synthHouse struct {
	*house
	late atomic.Int64 // device time of answers that came after their limit
}

// newSynthHouse serves models by name, each given by the lines of its manifest.
func newSynthHouse(tb testing.TB, manifests map[string]string) *synthHouse {
	tb.Helper()
	repo := tb.TempDir()
	for name, manifest := range manifests {
		addModel(tb, repo, name, manifest)
	}
	return &synthHouse{house: assemble(tb, repo, "synth", onSynth(synth.NewDevice()))}
}

// onSynth opens models that are latency curves of one device.
func onSynth(device *synth.Device) host.Opener {
	return func(_ context.Context, _ modelrepo.Version, _ *modelfile.Files, m *modelrepo.Manifest,
		_ string, _ engine.Try,
	) (engine.Opened, error) {
		session, err := synth.Open(synth.Options{
			Base: time.Duration(m.Synth.Base), PerRow: time.Duration(m.Synth.PerRow), Device: device,
		})
		return engine.Opened{Session: session, Device: "synth", Provider: "synth"}, err
	}
}

// curve is the manifest of a model that takes base + perRow for each row; batching is the lines of that key.
func curve(base, perRow time.Duration, batching string) string {
	// synth's own defaults
	const tensors = "inputs: {x: {dtype: fp32, shape: [-1, 4]}}, outputs: {y: {dtype: fp32, shape: [-1, 4]}}"
	return fmt.Sprintf("synth: {base: %v, per_row: %v, %s}\nbatching: {%s}", base, perRow, tensors, batching)
}

// Predict is the host's, and notes answers that came too late.
func (h *synthHouse) Predict(ctx context.Context, call *catalog.Call) error {
	err := h.host.Predict(ctx, call)
	if !call.Limit.IsZero() && time.Now().After(call.Limit) {
		h.late.Add(int64(call.Outcome.DeviceTime))
	}
	return err
}

// served is the device time of each model so far.
func (h *synthHouse) served() map[string]time.Duration {
	served := map[string]time.Duration{}
	for _, f := range h.sched.State().Flows {
		model, _, _ := strings.Cut(f.Name, "@")
		served[model] = f.Served
	}
	return served
}
