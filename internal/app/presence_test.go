package app

import (
	"bytes"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/modelrepo"
)

func TestFindDevices(t *testing.T) {
	nvml, err := driver()
	if err != nil {
		t.Fatal(err)
	}
	nvml.Say(t, gpuState("2000")...)
	t.Setenv("CUDA_VISIBLE_DEVICES", "0")
	for name, c := range map[string]struct {
		devices, library, found, absent, unknown string
		off                                      bool
		log                                      string
	}{
		"no GPU asked for": {devices: "cpu", library: nvml.Path, found: "cpu"},
		"all there": {
			devices: "cpu,cuda", library: nvml.Path, found: "cpu cuda:0",
			log: `found="[cpu cuda:0]" not_there=[] unknown=[]`,
		},
		"one of two": {
			devices: "cpu,cuda:0,cuda:7", library: nvml.Path, found: "cpu cuda:0",
			absent: "cuda:7", log: "not_there=[cuda:7]",
		},
		"none of them": {
			devices: "cpu,cuda:7", library: nvml.Path,
			found: "cpu", absent: "cuda:7", log: "not_there=[cuda:7]",
		},
		"no driver": {
			devices: "cpu,cuda:7", library: "libweft-is-not-there.so.1", found: "cpu", unknown: "cuda:7",
			log: "event=gpu_unconfirmed",
		},
		"not asked": {
			devices: "cpu,cuda:7", library: nvml.Path, off: true,
			found: "cpu", unknown: "cuda:7", log: "unknown=[cuda:7]",
		},
	} {
		s := config.DefaultServer()
		s.Devices = strings.Split(c.devices, ",")
		if c.off {
			s.GPUTelemetry = config.GPUTelemetryOff
		}
		w := watchGPUs(&s, gpuStandIns{library: c.library}, nil, slog.New(slog.DiscardHandler))
		p := findDevices(&s, w)
		if w != nil && w.close != nil {
			if err := w.close(); err != nil {
				t.Error(err)
			}
		}
		join := func(all map[string]error) string { return strings.Join(slices.Sorted(maps.Keys(all)), " ") }
		got := []string{strings.Join(p.found, " "), join(p.absent), join(p.unknown)}
		if want := []string{c.found, c.absent, c.unknown}; !cmp.Equal(got, want) {
			t.Errorf("%s: found, absent and unknown are %q, want %q", name, got, want)
		}
		for _, cause := range []error{p.absent["cuda:7"], p.unknown["cuda:7"]} {
			if place := map[bool]string{
				true:  "--devices[1]: ",
				false: "--devices[2]: ",
			}[len(s.Devices) == 2]; cause != nil &&
				!strings.HasPrefix(cause.Error(), place) {
				t.Errorf("%s: %v, want the place, %s", name, cause, place)
			}
		}
		var log bytes.Buffer
		p.tell(&s, slog.New(slog.NewTextHandler(&log, nil)))
		if !strings.Contains(log.String(), c.log) || (c.log == "") != (log.Len() == 0) || c.off &&
			strings.Contains(log.String(), "WARN") {
			t.Errorf("%s: the log says %q, want %q", name, log.String(), c.log)
		}
	}
}

// TestADeviceThatIsNotThere: it counts as lost, and models that do not need it are served.
func TestADeviceThatIsNotThere(t *testing.T) {
	r, _ := serveFollowed(t, quick, func(c *App) { c.Devices = []string{"cpu", "cuda:7"} })
	r.awaitReady(t)
	r.awaitMetric(t, `weft_device_lost\{device="cuda:7"\}`, is("1"))
	r.state(t)
}

func TestUnusedGPUs(t *testing.T) {
	model := func(providers ...modelrepo.Provider) modelrepo.Model {
		m := modelrepo.Defaults()
		m.ONNX.Providers = providers
		return modelrepo.Model{Manifest: m}
	}
	synthetic := model(modelrepo.CPU)
	synthetic.Manifest.Synth = &modelrepo.Synth{}
	onCPU, onGPU := model(modelrepo.CPU), model(modelrepo.CUDA, modelrepo.CPU)
	const cause = "no model uses cuda:0, cuda:1: set onnx.providers: [cuda] in the model.yaml of those that shall"
	for name, c := range map[string]struct {
		devices string
		models  []modelrepo.Model
		want    string
	}{
		"none asks":        {"cpu,cuda,cuda:1", []modelrepo.Model{onCPU, onCPU}, cause},
		"one asks":         {"cpu,cuda,cuda:1", []modelrepo.Model{onCPU, onGPU}, ""},
		"no GPU":           {"cpu", []modelrepo.Model{onCPU}, ""},
		"no processor":     {"cuda,cuda:1", []modelrepo.Model{onCPU}, ""},
		"only synthetic":   {"cpu,cuda,cuda:1", []modelrepo.Model{synthetic}, ""},
		"synthetic and no": {"cpu,cuda,cuda:1", []modelrepo.Model{synthetic, onCPU}, cause},
	} {
		s := config.DefaultServer()
		s.Devices = strings.Split(c.devices, ",")
		if got := unusedGPUs(&s, modelrepo.Listing{Models: c.models}); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
