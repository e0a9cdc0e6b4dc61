package app

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelfile"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// noIsolation has models run in the process of the test.
var noIsolation = &config.Server{Isolation: config.IsolateNone}

func TestDevicesAndLanes(t *testing.T) {
	got := parseDevices([]string{"cuda", "cpu:5", "cuda:3"}).forScheduler()
	want := []sharedsched.Device{
		{Name: "synth", Class: "synth", Lanes: 1},
		{Name: "cpu", Class: "cpu", Lanes: 5},
		{Name: "cuda:0", Class: "cuda:0", Lanes: 2, Handover: time.Millisecond},
		{Name: "cuda:3", Class: "cuda:3", Lanes: 2, Handover: time.Millisecond},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
}

// Models keep as many processors busy as the process may use, whatever the machine has.
func TestLanesOfTheProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(7))
	if got := parseDevices([]string{"cpu"}).forScheduler()[1]; got.Lanes != 7 || got.Handover != 0 {
		t.Errorf("with 7 processors the device is %+v", got)
	}
}

func TestThreadsOfAnExecution(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		asked           modelrepo.Threads
		model, external int64 // bytes
		want            int
	}{
		{3, mib, 0, 3},
		{1, 1000 * mib, 0, 1},
		{modelrepo.AutoThreads, mib, 0, 1},
		{modelrepo.AutoThreads, 63 * mib, 0, 1},
		{modelrepo.AutoThreads, 64 * mib, 0, 2},
		{modelrepo.AutoThreads, 32 * mib, 64 * mib, 3},
		{modelrepo.AutoThreads, 1000 * mib, 0, 5},
	} {
		f := &modelfile.Files{Opened: modelfile.File{Size: c.model}, List: []modelfile.File{{}, {Size: c.external}}}
		if got := parseDevices([]string{"cpu:5"}).threads(c.asked, f); got != c.want {
			t.Errorf("asked for %d, with %d and %d bytes: %d threads, want %d", c.asked, c.model, c.external, got, c.want)
		}
	}
	if got := parseDevices([]string{"cuda"}).threads(modelrepo.AutoThreads,
		&modelfile.Files{Opened: modelfile.File{Size: 1 << 30}, List: []modelfile.File{{}}}); got != 1 {
		t.Errorf("without the processor: %d threads", got)
	}
}

func TestUsableProviders(t *testing.T) {
	const (
		cpu  = modelrepo.CPU
		cuda = modelrepo.CUDA
	)
	noGPU, noCPU := "it asks for cuda, but --devices names no GPU, such as cuda:0",
		"it asks for cpu, but --devices does not name cpu"
	for _, tt := range []struct {
		devices string
		asked   []modelrepo.Provider
		want    []string
		notes   []string
	}{
		{devices: "cpu", asked: []modelrepo.Provider{cpu}, want: []string{"cpu"}},
		{devices: "cpu", asked: []modelrepo.Provider{cuda, cpu}, want: []string{"cpu"}, notes: []string{noGPU}},
		{devices: "cpu", asked: []modelrepo.Provider{cuda}, notes: []string{noGPU}},
		{devices: "cuda", asked: []modelrepo.Provider{cuda, cpu}, want: []string{"cuda"}, notes: []string{noCPU}},
		{
			devices: "cpu", asked: []modelrepo.Provider{modelrepo.TensorRT, modelrepo.OpenVINO},
			want:  []string{"openvino"},
			notes: []string{"it asks for tensorrt, but --devices names no GPU, such as cuda:0"},
		},
		{devices: "cpu,cuda", asked: []modelrepo.Provider{cuda, cpu}, want: []string{"cuda", "cpu"}},
	} {
		e := newEngines(parseDevices(strings.Split(tt.devices, ",")), noIsolation, nil, nil, nil)
		got, notes := e.usable(tt.asked)
		if !cmp.Equal(got, tt.want) || !cmp.Equal(notes, tt.notes) {
			t.Errorf("--devices %s, providers %v: %q with notes %q, want %q with %q", tt.devices, tt.asked, got, notes,
				tt.want, tt.notes)
		}
	}
}

// cartpole opens an example model, and runs it.
func cartpole(t *testing.T, devices string,
	onnx modelrepo.ONNX,
) (device string, notes []string, measured bool, err error) {
	t.Helper()
	if _, err := ortlib.Find(); err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Abs("../../examples/models/cartpole/3/model.onnx")
	if err != nil {
		t.Fatal(err)
	}
	e := newEngines(parseDevices(strings.Split(devices, ",")), noIsolation, &library{}, nil,
		slog.New(slog.DiscardHandler))
	m := modelrepo.Defaults()
	m.ONNX = onnx
	v := modelrepo.Version{Path: path, Dir: filepath.Dir(path)}
	sites, err := e.sites(v, &m)
	if err != nil {
		return "", nil, false, err
	}
	opened, err := e.open(t.Context(), v, copyOf(t, v), &m, sites[0].Device, nil)
	if err != nil {
		return "", nil, false, err
	}
	b := tensor.NewBatch(1, len(opened.Session.Signature().Outputs), opened.Memory)
	defer b.Free()
	b.Input(0, tensor.Float32, tensor.Shape{1, 4}, 16)
	if err := opened.Session.Run(t.Context(), b); err != nil {
		t.Error(err)
	}
	if err := opened.Session.Close(); err != nil {
		t.Error(err)
	}
	return opened.Device, opened.Notes, b.DeviceTime > 0, nil
}

func TestONNXOnTheCPU(t *testing.T) {
	for threads, measurable := range map[modelrepo.Threads]bool{1: true, 2: false} {
		device, notes, measured,
			err := cartpole(t, "cpu",
			modelrepo.ONNX{Providers: []modelrepo.Provider{modelrepo.CPU}, IntraOpThreads: threads})
		if err != nil || device != "cpu" || len(notes) != 0 || measured != measurable {
			t.Errorf("%d threads: on %q, notes %q, device time measured %v, %v", threads, device, notes, measured, err)
		}
	}
}

// A model is offered each GPU that its manifest allows once, before the processor.
func TestSitesOfONNX(t *testing.T) {
	for name, c := range map[string]struct {
		devices   string
		device    string
		providers []modelrepo.Provider
		want      []host.Site
		err       string
	}{
		"any": {
			"cuda:0,cuda:2,cpu", "",
			[]modelrepo.Provider{modelrepo.TensorRT, modelrepo.CUDA, modelrepo.CPU},
			[]host.Site{{Device: "cuda:0"}, {Device: "cuda:2"}, {Device: "cpu", Rank: 2}},
			"",
		},
		"pinned": {
			"cuda:0,cuda:2,cpu", "cuda:2",
			[]modelrepo.Provider{modelrepo.CUDA},
			[]host.Site{{Device: "cuda:2"}},
			"",
		},
		"unknown": {
			"cuda:0,cuda:2,cpu", "cuda:1",
			[]modelrepo.Provider{modelrepo.CUDA, modelrepo.CPU},
			nil,
			"asks for cuda:1, but --devices does not name that; change onnx.device",
		},
		"no GPU": {
			"cpu", "cuda:1",
			[]modelrepo.Provider{modelrepo.CUDA, modelrepo.CPU},
			[]host.Site{{Device: "cpu"}},
			"",
		},
	} {
		e := newEngines(parseDevices(strings.Split(c.devices, ",")), noIsolation, nil, nil, nil)
		m := modelrepo.Defaults()
		m.ONNX.Device, m.ONNX.Providers = c.device, c.providers
		got, err := e.sites(modelrepo.Version{Path: "p"}, &m)
		if !cmp.Equal(got, c.want) || (err != nil) != (c.err != "") || err != nil &&
			!strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
	}
}

// The machine has the library and the flag names a GPU, but there is none that ONNX Runtime could use.
func TestONNXWithoutItsProvider(t *testing.T) {
	onnx := modelrepo.Defaults().ONNX
	onnx.Providers = []modelrepo.Provider{modelrepo.CUDA}
	_, _, _, err := cartpole(t, "cpu,cuda", onnx)
	if err == nil {
		t.Skip("this machine has CUDA")
	}
	if !strings.Contains(err.Error(), "cartpole/3/model.onnx: cuda asked for but not there") ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v, want one sentence", err)
	}
	onnx.Providers = []modelrepo.Provider{modelrepo.CUDA, modelrepo.CPU}
	device, notes, _, err := cartpole(t, "cpu,cuda", onnx)
	if err != nil || device != "cpu" || len(notes) != 1 || !strings.HasSuffix(notes[0], "; using cpu") {
		t.Errorf("on %q, notes %q, %v; want the CPU and a note", device, notes, err)
	}
	const nowhere = "; nor can it have another provider: it asks for cpu, but --devices does not name cpu"
	if _, _, _, err = cartpole(t, "cuda", onnx); err == nil || !strings.HasSuffix(err.Error(), nowhere) {
		t.Errorf("error %v, want it to say why the CPU is none", err)
	}
}

// A model is placed on the processor: because the GPU that it would rather have is lost or full, or because it asks for
// no other first.
func TestONNXOnTheProcessorBesideAGPU(t *testing.T) {
	if _, err := ortlib.Find(); err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Abs("../../examples/models/cartpole/3/model.onnx")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		providers []modelrepo.Provider
		notes     []string
	}{
		{[]modelrepo.Provider{modelrepo.CUDA, modelrepo.CPU}, []string{"it asks for cuda, but no GPU can take it now"}},
		{[]modelrepo.Provider{modelrepo.CPU, modelrepo.CUDA}, nil},
	} {
		e := newEngines(parseDevices([]string{"cuda:0", "cpu"}), noIsolation, &library{}, nil,
			slog.New(slog.DiscardHandler))
		m := modelrepo.Defaults()
		m.ONNX.Providers = c.providers
		v := modelrepo.Version{Path: path, Dir: filepath.Dir(path)}
		opened, err := e.open(t.Context(), v, copyOf(t, v), &m, "cpu", nil)
		if err != nil {
			t.Fatal(err)
		}
		if opened.Device != "cpu" || opened.Provider != "cpu" || !cmp.Equal(opened.Notes, c.notes) {
			t.Errorf("%v: on %s by %s with %q, want the CPU and %q", c.providers, opened.Device, opened.Provider,
				opened.Notes, c.notes)
		}
		if err := opened.Session.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestONNXWithoutItsDevice(t *testing.T) {
	const cpu, cuda = modelrepo.CPU, modelrepo.CUDA
	for _, c := range []struct {
		devices   string
		providers []modelrepo.Provider
		want      string
	}{
		{"cpu", []modelrepo.Provider{cuda}, "it asks for cuda, but --devices names no GPU, such as cuda:0; " +
			"start the server with --devices cpu,cuda:0 or another GPU, or add cpu to onnx.providers in the model's " +
			"model.yaml"},
		{"cuda:1,cuda:2", []modelrepo.Provider{cpu}, "it asks for cpu, but --devices does not name cpu; " +
			"set onnx.providers: [cuda] in the model's model.yaml to have it on a GPU, or start the server with " +
			"--devices cpu,cuda:1,cuda:2"},
	} {
		_, _, _, err := cartpole(t, c.devices, modelrepo.ONNX{Providers: c.providers, IntraOpThreads: 1})
		if err == nil || !strings.HasSuffix(err.Error(), "cartpole/3/model.onnx: "+c.want) {
			t.Errorf("--devices %s, providers %v: error %v, want %s", c.devices, c.providers, err, c.want)
		}
	}
	device, notes, _, err := cartpole(t,
		"cpu", modelrepo.ONNX{Providers: []modelrepo.Provider{cuda, cpu}, IntraOpThreads: 1})
	want := []string{"it asks for cuda, but --devices names no GPU, such as cuda:0; using cpu"}
	if err != nil || device != "cpu" || !cmp.Equal(notes, want) {
		t.Errorf("on %q, notes %q, %v; want the CPU and %q", device, notes, err, want)
	}
	// There is no note on a provider that it would use only if it had to.
	device, notes, _, err = cartpole(t,
		"cpu", modelrepo.ONNX{Providers: []modelrepo.Provider{cpu, cuda}, IntraOpThreads: 1})
	if err != nil || device != "cpu" || len(notes) > 0 {
		t.Errorf("on %q, notes %q, %v; want the CPU and nothing to tell", device, notes, err)
	}
}

// copyOf returns the private copy of a version's files.
func copyOf(t *testing.T, v modelrepo.Version) *modelfile.Files {
	t.Helper()
	f, err := reads(&config.Server{}, nil)(t.Context(), v, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// TestUntilWorks: attempts come after 1, 2, 4, ... s, and at least every 5 min, and end with the context.
func TestUntilWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, tries := time.Now(), 0
		err := untilWorks(t.Context(), func() error {
			if tries++; tries < 11 {
				return errors.New("it is still lost")
			}
			return nil
		})
		// 1 + 2 + 4 + ... + 256 s, then twice 5 min.
		if took := time.Since(start); err != nil || took != 511*time.Second+10*time.Minute {
			t.Errorf("%v after %d attempts in %v", err, tries, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := untilWorks(ctx, func() error { return errors.New("never") }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ended with %v", err)
		}
	})
}
