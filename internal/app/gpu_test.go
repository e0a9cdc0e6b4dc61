package app

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/gpu"
	"github.com/weftserve/weft/gpu/gputest"
	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/sharedsched/cost"
)

// driver is the NVML of this process, which can have one only.
var driver = sync.OnceValues(func() (_ *gputest.NVML, err error) {
	if driverFolder, err = os.MkdirTemp("", "weft-driver-*"); err != nil {
		return nil, err
	}
	return gputest.NewNVML(driverFolder)
})

// driverFolder is where the driver is; "" if no test asked for one.
var driverFolder string

// gpuState is a driver's state of one GPU, with the clock given.
func gpuState(clock string) []string {
	return []string{
		"count 1", "0.uuid GPU-1", "0.name Test", "0.clock " + clock, "0.max_clock 2000", "0.reasons 0",
		"0.utilisation 90",
		"0.total 80000000000", "0.used 30000000000", "0.free 50000000000", "0.temperature 60", "0.xid 0:0",
	}
}

// serveFollowed serves the models policy, which is quick, and large on the synthetic device, as whose state that of a
// GPU is taken.
func serveFollowed(t *testing.T, large string, adjust func(*App)) (*running, *gputest.NVML) {
	t.Helper()
	nvml, err := driver()
	if err != nil {
		t.Fatal(err)
	}
	nvml.Say(t, gpuState("2000")...)
	t.Setenv("CUDA_VISIBLE_DEVICES", "0")
	repository := t.TempDir()
	for model, manifest := range map[string]string{"policy": quick, "large": large} {
		weftest.AddVersion(t, repository, model, 1)
		// No request is in a hurry, which would be another reason for small batches.
		weftest.SetManifest(t, repository, model, "target_latency: 5s\n"+manifest)
	}
	return serveFrom(t, repository, func(c *App) {
		c.gpuStandIns = gpuStandIns{
			library: nvml.Path, devices: []gpu.Device{{Name: synthDevice}}, interval: 50 * time.Millisecond,
		}
		if adjust != nil {
			adjust(c)
		}
	}), nvml
}

// metric returns the value of a metric of the synthetic device, "" if it is not on the page.
func (r *running) metric(t *testing.T, name string) string {
	t.Helper()
	_, page := r.get(t, "/metrics")
	found := regexp.MustCompile(`(?m)^` + name + ` (.*)$`).FindStringSubmatch(page)
	if found == nil {
		return ""
	}
	return found[1]
}

// awaitMetric returns when a metric has a value that will do.
func (r *running) awaitMetric(t *testing.T, name string, will func(string) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
	defer cancel()
	again := time.NewTicker(10 * time.Millisecond) // nothing tells of metrics but looking at them
	defer again.Stop()
	for !will(r.metric(t, name)) {
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("%s is %q", name, r.metric(t, name))
		}
	}
}

func is(want string) func(string) bool { return func(got string) bool { return got == want } }

// state makes policy answer one request, so that the scheduler looks at the device, and returns the scheduler's state
// then. The device does not really change, which policy's estimate takes into account after one execution; the estimate
// of large follows the state that the driver reported.
func (r *running) state(t *testing.T) *weftv1.SchedulerState {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
	defer cancel()
	if _, err := weftv1.NewPredictionServiceClient(r.conn).Predict(ctx, weftest.Request("policy", 1)); err != nil {
		t.Fatal(err)
	}
	answer, err := weftv1.NewModelServiceClient(r.conn).GetSchedulerState(ctx, &weftv1.GetSchedulerStateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetState()
}

// believed is the scheduler's view of the state of the synthetic device.
type believed struct {
	clock, factor float64 // of the device, and of large on it
	rows          int32   // of large, at most in a batch
}

func (r *running) believed(t *testing.T) believed {
	t.Helper()
	s := r.state(t)
	var b believed
	for _, d := range s.GetDevices() {
		if d.GetName() == synthDevice {
			b.clock = d.GetClockFactor()
		}
	}
	for _, c := range s.GetCurves() {
		if c.GetModel() == "large" {
			b.factor = c.GetFactor()
		}
	}
	for _, q := range s.GetQueues() {
		if q.GetModel() == "large" {
			b.rows = q.GetMaxBatchRows()
		}
	}
	return b
}

// ran makes large answer one request of 64 rows, and returns how many rows its executions had, from first to last; it
// takes two at most.
func (r *running) ran(t *testing.T) []int32 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
	defer cancel()
	const rows = 64
	all := weftest.Request("large", 1)
	all.Inputs["x"].Shape, all.Inputs["x"].FloatValues = []int64{rows, 4}, make([]float32, rows*4)
	answer, err := weftv1.NewPredictionServiceClient(r.conn).Predict(ctx, all)
	if err != nil {
		t.Fatal(err)
	}
	e := answer.GetExecution()
	switch last := e.GetBatchRows(); {
	case e.GetExecutions() == 1 && last == rows:
		return []int32{rows}
	case e.GetExecutions() == 2 && last < rows:
		return []int32{rows - last, last}
	}
	t.Fatalf("%d rows ran so: %v", rows, e)
	return nil
}

// TestClockStep: a clock that is cut makes a running server expect more time of the same work, and take less of it at
// once, in batches that run and not only in the state that it shows; when the clock is back, so are both.
func TestClockStep(t *testing.T) {
	// 64 rows take 66 ms, of 100 ms that a batch may take. That leaves room for a machine that is busy.
	r, nvml := serveFollowed(t, `synth: {base: 2ms, per_row: 1ms, `+tensors+`}
batching: {mode: "on", max_batch_cost: 100ms}`, nil)
	r.awaitReady(t)
	full := r.believed(t)
	if full.clock != 1 || full.rows != 64 {
		t.Fatalf("at full clock: %+v", full)
	}
	if got := r.ran(t); len(got) != 1 {
		t.Errorf("at full clock 64 rows ran as %d", got)
	}
	nvml.Say(t, gpuState("800")...) // time grows by 0.7 / 0.4 + 0.3 = 2.05
	r.awaitMetric(t, `weft_gpu_clock_hertz\{device="synth"\}`, is("8e+08"))
	slow := r.believed(t)
	if slow.clock < 2.04 || slow.clock > 2.06 || slow.factor < 1.9*full.factor || slow.rows > 50 || slow.rows < 32 {
		t.Errorf("at 40 %% of the clock: %+v after %+v; want a factor of 2.05, and batches of (100/2.05 - 2) rows",
			slow, full)
	}
	if got := r.ran(t); got[0] != slow.rows {
		t.Errorf("at 40 %% of the clock 64 rows ran as %d, though %d are the most", got, slow.rows)
	}

	nvml.Say(t, gpuState("2000")...)
	r.awaitMetric(t, `weft_gpu_clock_hertz\{device="synth"\}`, is("2e+09"))
	if back := r.believed(t); back.clock != 1 || back.rows != 64 {
		t.Errorf("at full clock again: %+v", back)
	}
	if got := r.ran(t); len(got) != 1 {
		t.Errorf("at full clock again 64 rows ran as %d", got)
	}
}

// loseGPU makes the driver report that its GPU is gone, and returns when the server knows this of the device with that
// state.
func (r *running) loseGPU(t *testing.T, nvml *gputest.NVML, device string) {
	t.Helper()
	nvml.Say(t, lostGPU...)
	r.awaitMetric(t, `weft_device_lost\{device="`+device+`"\}`, is("1"))
}

var lostGPU = []string{"count 1", "0.clock !15", "0.reasons !15", "0.utilisation !15", "0.total !15"}

// TestLostDevice: the server reports the loss, refuses requests that only that device can answer, and counts. It does
// not use the device again when the driver reaches it again.
func TestLostDevice(t *testing.T) {
	r, nvml := serveFollowed(t, quick, nil)
	r.awaitReady(t)
	nvml.Say(t, gpuState("1000")...)
	r.awaitMetric(t, `weft_gpu_clock_hertz\{device="synth"\}`, is("1e+09"))
	if b := r.believed(t); b.clock < 1.6 {
		t.Fatalf("at half the clock: %+v", b)
	}
	r.loseGPU(t, nvml, synthDevice)
	for name, want := range map[string]string{
		`weft_gpu_lost\{device="synth"\}`: "1", `weft_gpu_fallbacks_total\{device="synth",reason="lost"\}`: "1",
		`weft_gpu_clock_hertz\{device="synth"\}`: "",
	} {
		if got := r.metric(t, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	r.refused(t, "policy")
	nvml.Say(t, gpuState("2000")...)
	r.awaitMetric(t, `weft_gpu_lost\{device="synth"\}`, is("0"))
	r.awaitMetric(t, `weft_gpu_clock_hertz\{device="synth"\}`, is("2e+09"))
	if got := r.metric(t, `weft_device_lost\{device="synth"\}`); got != "1" {
		t.Errorf("when it is back, weft_device_lost is %q", got)
	}
	r.refused(t, "policy")
}

// refused asks a model that is, or was, on the synthetic device alone, until it is said to have failed, and why.
func (r *running) refused(t *testing.T, model string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
	defer cancel()
	// it is tried again now and then, and is said to be loading meanwhile
	for again := time.NewTicker(10 * time.Millisecond); ; {
		_, err := weftv1.NewPredictionServiceClient(r.conn).Predict(ctx, weftest.Request(model, 1))
		if status.Code(err) == codes.FailedPrecondition &&
			strings.Contains(err.Error(), "synth: it is lost: the driver says so: ") {
			return
		}
		if code := status.Code(err); code != codes.Unavailable {
			t.Fatalf("it ended with %v", err)
		}
		<-again.C
	}
}

// TestALostGPUOfAnotherOrder: where CUDA counts GPUs in another order, it is not known which one the driver means, and
// none is given up.
func TestALostGPUOfAnotherOrder(t *testing.T) {
	t.Setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
	r, nvml := serveFollowed(t, quick, nil)
	r.awaitReady(t)
	nvml.Say(t, lostGPU...)
	r.awaitMetric(t, `weft_gpu_lost\{device="synth"\}`, is("1"))
	if _, err := weftv1.NewPredictionServiceClient(r.conn).Predict(t.Context(),
		weftest.Request("policy", 1)); err != nil {
		t.Error(err)
	}
	if got := r.metric(t, `weft_device_lost\{device="synth"\}`); got == "1" {
		t.Error("weft_device_lost is 1")
	}
}

// TestALostGPUIsLeft: a device that the driver reports as gone is out of use although nothing ran there, and the
// versions that were on it answer from elsewhere.
func TestALostGPUIsLeft(t *testing.T) {
	r, nvml := serveFollowed(t, quick, func(c *App) {
		c.Devices = several[:2]
		c.gpuStandIns.devices[0].Name = several[0]
	})
	r.awaitReady(t)
	used := func() map[string]bool {
		devices := map[string]bool{}
		for _, model := range []string{"policy", "large"} {
			answer, err := weftv1.NewPredictionServiceClient(r.conn).Predict(t.Context(), weftest.Request(model, 1))
			if status.Code(err) == codes.Unavailable {
				return nil // it is being loaded elsewhere
			}
			if err != nil {
				t.Fatal(err)
			}
			devices[answer.GetExecution().GetDevice()] = true
		}
		return devices
	}
	if got, want := used(), map[string]bool{several[0]: true, several[1]: true}; !maps.Equal(got, want) {
		t.Fatalf("at first they are on %v", got)
	}
	r.loseGPU(t, nvml, several[0])
	end := time.After(weftest.Patience)
	for again := time.NewTicker(10 * time.Millisecond); !maps.Equal(used(), map[string]bool{several[1]: true}); {
		select {
		case <-again.C:
		case <-end:
			t.Fatalf("they are on %v", used())
		}
	}
	if got := r.metric(t, `weft_device_lost\{device="`+several[1]+`"\}`); got != "0" {
		t.Errorf("of the other device, weft_device_lost is %q", got)
	}
}

func TestNotFollowed(t *testing.T) {
	t.Run("off", func(t *testing.T) {
		r, _ := serveFollowed(t, quick, func(c *App) { c.GPUTelemetry = config.GPUTelemetryOff })
		r.awaitReady(t)
		if _, page := r.get(t, "/metrics"); strings.Contains(page, "weft_gpu_") {
			t.Error("there are metrics of GPUs")
		}
	})
	t.Run("no device", func(t *testing.T) {
		r, _ := serveFollowed(t, quick, func(c *App) { c.gpuStandIns.devices[0].Ordinal = 3 })
		r.awaitReady(t)
		r.state(t)
		if got := r.metric(t, `weft_gpu_fallbacks_total\{device="synth",reason="no_device"\}`); got != "1" {
			t.Errorf("counted %q", got)
		}
	})
	t.Run("one of two", func(t *testing.T) {
		r, _ := serveFollowed(t, quick, func(c *App) {
			c.gpuStandIns.devices = append(c.gpuStandIns.devices, gpu.Device{Name: "cuda:1", Ordinal: 1})
		})
		r.awaitReady(t)
		r.awaitMetric(t, `weft_gpu_temperature_celsius\{device="synth"\}`, is("60"))
		if got := r.metric(t, `weft_gpu_fallbacks_total\{device="cuda:1",reason="no_device"\}`); got != "1" {
			t.Errorf("counted %q", got)
		}
	})
}

// TestDriverThatHangs: the server starts without it. When it answers at last, nothing is left of that, as the
// goroutines show.
func TestDriverThatHangs(t *testing.T) {
	r, nvml := serveFollowed(t, quick, func(c *App) {
		c.gpuStandIns.patience = 50 * time.Millisecond
		say, err := driver()
		if err != nil {
			t.Fatal(err)
		}
		say.Say(t, append(gpuState("2000"), "init wait")...)
	})
	r.awaitReady(t)
	if got := r.metric(t, `weft_gpu_fallbacks_total\{device="synth",reason="no_answer"\}`); got != "1" {
		t.Errorf("counted %q", got)
	}
	r.state(t)
	nvml.Say(t, "count 1", "0.uuid GPU-1") // and no errors, since it takes a moment to stop listening for these
}

// TestFreeMemory: it is known from the first placement on and never of a moment ago; a driver that hangs holds up few
// of them, for a moment.
func TestFreeMemory(t *testing.T) {
	begin := func(t *testing.T, source *gputest.Source) (*gpuWatch, func(want int64, known bool) time.Duration) {
		w := &gpuWatch{
			sampler: gpu.NewSampler(
				gpu.Config{
					Source: source, Devices: []gpu.Device{{Name: "cuda:0"}},
					Logger: slog.New(slog.DiscardHandler),
				}),
			close: func() error { return nil },
		}
		part := w.part(slog.New(slog.DiscardHandler))
		ended := make(chan error, 1)
		go func() { ended <- part.Run() }()
		t.Cleanup(func() {
			if err := errors.Join(part.Stop(context.WithoutCancel(t.Context())), <-ended); err != nil {
				t.Error(err)
			}
		})
		return w, func(want int64, known bool) time.Duration {
			t.Helper()
			before := time.Now()
			if got, ok := w.free("cuda:0"); got != want || ok != known {
				t.Errorf("free: %d, known: %v; want %d, %v", got, ok, want, known)
			}
			return time.Since(before)
		}
	}
	bubble := func(name string, test func(*testing.T, *gputest.Source)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := &gputest.Source{}
				source.Set(0, gpu.Memory, gpu.Sample{MemoryTotal: 80, MemoryFree: 50})
				test(t, source)
			})
		})
	}
	bubble("at first, and at once", func(t *testing.T, source *gputest.Source) {
		_, free := begin(t, source)
		free(50, true)
		time.Sleep(time.Minute)
		source.Set(0, gpu.Memory, gpu.Sample{MemoryTotal: 80, MemoryFree: 20})
		if took := free(20, true); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
	bubble("not told", func(t *testing.T, source *gputest.Source) {
		source.Set(0, gpu.Clock, gpu.Sample{Clock: 1})
		source.Fail(0, gpu.Memory, gpu.ErrNotSupported)
		_, free := begin(t, source)
		if took := free(0, false); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
	bubble("fails for a moment", func(t *testing.T, source *gputest.Source) {
		_, free := begin(t, source)
		time.Sleep(time.Second)
		source.Fail(0, gpu.Memory, errors.New("busy"))
		if took := free(50, true); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
	bubble("the driver hangs", func(t *testing.T, source *gputest.Source) {
		_, free := begin(t, source)
		time.Sleep(time.Minute)
		release := source.Hold(0)
		time.Sleep(driverPatience / 4)
		if took := free(50, true); took != driverPatience {
			t.Errorf("the first time, it took %v", took)
		}
		time.Sleep(time.Second)
		if took := free(0, false); took != 0 {
			t.Errorf("later, it took %v", took)
		}
		release()
	})
	bubble("the driver never answers", func(t *testing.T, source *gputest.Source) {
		release := source.Hold(0)
		w, free := begin(t, source)
		if took := free(0, false); took != driverPatience {
			t.Errorf("the first time, it took %v", took)
		}
		time.Sleep(time.Millisecond)
		if took := free(0, false); took != 0 {
			t.Errorf("later, it took %v", took)
		}
		release()
		synctest.Wait()
		free(50, true)
		if _, known := w.free("cpu"); known {
			t.Error("that of the processor is known")
		}
	})
}

// TestNoDriver: a GPU is asked for on a machine that has none. Without one, a library of a wrong name stands for that.
func TestNoDriver(t *testing.T) {
	var log bytes.Buffer
	s := config.DefaultServer()
	s.Devices = []string{"cpu", "cuda:1", "cuda"}
	w := watchGPUs(&s, gpuStandIns{library: "libweft-is-not-there.so.1"}, nil, slog.New(slog.NewTextHandler(&log, nil)))
	if w == nil || w.sampler != nil {
		t.Fatalf("%+v", w)
	}
	if _, number := w.Sample("cuda:1"); number != 0 {
		t.Errorf("there is a sample, number %d", number)
	}
	counted := map[string]int64{}
	for _, g := range w.list() {
		for reason, n := range g.FallBacks {
			counted[g.Name+" "+reason] = n
		}
	}
	reason := "no_library"
	if strings.Contains(log.String(), "is loaded already") {
		reason = "failed" // another test of this process has loaded one
	}
	if want := map[string]int64{"cuda:0 " + reason: 1, "cuda:1 " + reason: 1}; !cmp.Equal(counted, want) {
		t.Errorf("counted %v, want %v", counted, want)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 ||
		!strings.Contains(log.String(), "event=gpu_telemetry_failed") {
		t.Errorf("%d warnings, want one:\n%s", n, log.String())
	}
}

// TestStopOfTelemetry: the driver is let go of; one that hangs is left behind.
func TestStopOfTelemetry(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var (
				source gputest.Source
				log    bytes.Buffer
				closed bool
			)
			w := &gpuWatch{
				sampler: gpu.NewSampler(
					gpu.Config{
						Source: &source, Devices: []gpu.Device{{Name: "cuda:0"}},
						Logger: slog.New(slog.DiscardHandler),
					}),
				close: func() error { closed = true; return nil },
			}
			release := func() {}
			if hangs {
				release = source.Hold(0)
			}
			part := w.part(slog.New(slog.NewTextHandler(&log, nil)))
			ended := make(chan error, 1)
			go func() { ended <- part.Run() }()
			synctest.Wait()
			begin := time.Now()
			if err := part.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if took := time.Since(begin); closed == hangs || took > 0 != hangs || took > driverPatience {
				t.Errorf("hangs: %v, let go of: %v, after %v", hangs, closed, took)
			}
			if said := strings.Contains(log.String(), "event=gpu_driver_abandoned"); said != hangs {
				t.Errorf("log: %s", log.String())
			}
			release()
		})
	}
}

func TestCostSample(t *testing.T) {
	got := costSample(&gpu.Sample{
		Known: gpu.AllQuantities, Clock: 900, MaxClock: 2000, Reasons: gpu.HWThermal | gpu.GPUIdle, CoTenant: 300,
		MemoryFree: 5, MemoryTotal: 8,
	})
	want := cost.Sample{
		Clock: 900, MaxClock: 2000, Idle: true, Throttled: true, CoTenant: 300, MemoryFree: 5,
		MemoryTotal: 8,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sample (-want +got):\n%s", diff)
	}
	for _, reason := range []gpu.Reasons{gpu.SWPowerCap, gpu.ApplicationsClocks, gpu.SyncBoost, gpu.SWThermal} {
		s := costSample(&gpu.Sample{Known: gpu.EventReasons, Reasons: reason})
		if s.Throttled || s.Cooling != (reason == gpu.SWThermal) {
			t.Errorf("%v counts as throttled: %v, as cooling: %v", reason, s.Throttled, s.Cooling)
		}
	}
	if got := costSample(&gpu.Sample{Lost: true}); got != (cost.Sample{Expired: true}) {
		t.Errorf("of a lost device: %+v", got)
	}
}

func TestOrderOfGPUs(t *testing.T) {
	var log bytes.Buffer
	for _, tt := range []struct{ devices, order, want, said string }{
		{"cpu", "", "", ""},
		{"cuda", "", "PCI_BUS_ID", ""},
		{"cuda", "PCI_BUS_ID", "PCI_BUS_ID", ""},
		{"cuda:1", "FASTEST_FIRST", "FASTEST_FIRST", "event=gpu_order_unknown cuda_device_order=FASTEST_FIRST"},
	} {
		t.Run(tt.devices+" "+tt.order, func(t *testing.T) {
			t.Setenv("CUDA_DEVICE_ORDER", tt.order)
			log.Reset()
			parseDevices([]string{tt.devices}).countByBus(slog.New(slog.NewTextHandler(&log, nil)))
			if got := os.Getenv("CUDA_DEVICE_ORDER"); got != tt.want {
				t.Errorf("the order is %q, want %q", got, tt.want)
			}
			if said := log.String(); (said == "") != (tt.said == "") || !strings.Contains(said, tt.said) {
				t.Errorf("log %q", said)
			}
		})
	}
}
