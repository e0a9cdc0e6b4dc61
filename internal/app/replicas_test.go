package app

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelrepo"
)

var several = []string{"synth:0", "synth:1", "synth:2"}

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
