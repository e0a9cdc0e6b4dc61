package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched/shell"
)

var several = []string{"synth:0", "synth:1", "synth:2"}

// TestALostDeviceInTheHouse loses the devices of a version one by one while requests keep coming: refused callers learn
// that it is for the moment, and answers come from the next device, until none is left.
func TestALostDeviceInTheHouse(t *testing.T) {
	repository := t.TempDir()
	weftest.AddVersion(t, repository, "walker", 1)
	weftest.SetManifest(t, repository, "walker", quick)
	repo, err := modelrepo.Open(repository)
	if err != nil {
		t.Fatal(err)
	}
	s := config.DefaultServer()
	s.Devices = several
	changed := make(chan *catalog.Snapshot, 1000)
	h, err := newHouse(&s, slog.New(slog.DiscardHandler), nil,
		host.Config{OnChange: func(s *catalog.Snapshot) { changed <- s }, TryOnce: true}, shell.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.models.Reconcile(t.Context(), repo.Scan()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for ctx.Err() == nil {
				v := h.models.Snapshot().Model("walker").Version(1)
				c := &catalog.Call{
					Version: v, Rows: 1,
					Inputs: []tensor.Tensor{{DType: tensor.Float32, Shape: tensor.Shape{1, 4}, Data: make([]byte, 16)}},
				}
				err := h.models.Predict(t.Context(), c)
				if err != nil && !errors.Is(err, catalog.ErrNotReady) {
					t.Errorf("a request ended with %v", err)
				}
			}
		})
	}
	await := func(what string, want func(*catalog.Version) bool) {
		for end := time.After(weftest.Patience); ; {
			select {
			case s := <-changed:
				if want(s.Model("walker").Version(1)) {
					return
				}
			case <-end:
				t.Fatalf("%s: not within %v", what, weftest.Patience)
			}
		}
	}
	for i, device := range several {
		await("ready on "+device,
			func(v *catalog.Version) bool { return v.State == catalog.Ready && v.Device == device })
		if i+1 < len(several) {
			h.models.LoseDevice(device, errors.New("fell off the bus"))
		}
	}
	h.models.LoseDevice(several[2], errors.New("fell off the bus"))
	await("failed", func(v *catalog.Version) bool {
		return v.State == catalog.Failed && strings.Contains(v.Cause, "synth:2: it is lost: fell off the bus")
	})
	stop()
	callers.Wait()
	if lost := h.models.Snapshot().Lost; len(lost) != 3 {
		t.Errorf("lost: %v", lost)
	}
	if err := h.close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestSites: the processor is the last resort of a model that wants a GPU.
func TestSites(t *testing.T) {
	for _, c := range []struct {
		devices   string
		providers []modelrepo.Provider
		want      []host.Site
	}{
		{"cpu", []modelrepo.Provider{modelrepo.CPU}, []host.Site{{Device: "cpu"}}},
		{
			"cpu,cuda:0,cuda:2",
			[]modelrepo.Provider{modelrepo.CUDA, modelrepo.CPU},
			[]host.Site{{Device: "cuda:0"}, {Device: "cuda:2"}, {Device: "cpu", Rank: 1}},
		},
		{
			"cuda:1,cpu",
			[]modelrepo.Provider{modelrepo.CPU, modelrepo.CUDA},
			[]host.Site{{Device: "cpu"}, {Device: "cuda:1", Rank: 1}},
		},
		{"cpu", []modelrepo.Provider{modelrepo.CUDA, modelrepo.CPU}, []host.Site{{Device: "cpu"}}},
	} {
		m := modelrepo.Defaults()
		m.ONNX.Providers = c.providers
		e := newEngines(parseDevices(strings.Split(c.devices, ",")), noIsolation, nil, nil, nil)
		got, err := e.sites(modelrepo.Version{}, &m)
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("--devices %s, providers %v: %v (-want +got):\n%s", c.devices, c.providers, err, diff)
		}
		m.Synth = &modelrepo.Synth{}
		if got, err := e.sites(modelrepo.Version{}, &m); err != nil || !cmp.Equal(got, []host.Site{{Device: "synth"}}) {
			t.Errorf("a synthetic model may be on %v, %v", got, err)
		}
	}
}
