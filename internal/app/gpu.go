package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/weftserve/weft/gpu"
	"github.com/weftserve/weft/gpu/nvidia"
	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/lifecycle"
	"github.com/weftserve/weft/internal/telemetry"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/sharedsched/cost"
)

// gpuWatch follows the state of the GPUs that models run on. It implements shell.Telemetry. Its fields are set before
// the first model is loaded.
type gpuWatch struct {
	sampler *gpu.Sampler      // nil: there is nothing to follow
	began   time.Time         // when the sampler did
	close   func() error      // lets go of the driver, once the sampler has ended
	missing map[string]string // devices that cannot be followed, and a word for why
}

// gpuStandIns let a test follow other devices than GPUs, through a library of its own. Zero fields are as usual.
type gpuStandIns struct {
	interval time.Duration // between readings
	library  string
	patience time.Duration // with the library
	devices  []gpu.Device
}

// watchGPUs finds the GPUs among the devices. Where there is no driver to ask, the log says so and everything else goes
// on: estimates then rely on measured executions. lost is called for each GPU that the driver cannot reach any more,
// but only while the part runs. The result is nil if there is no GPU, or if the settings turn this off.
func watchGPUs(s *config.Server, instead gpuStandIns, lost func(d gpu.Device, cause error),
	log *slog.Logger,
) *gpuWatch {
	devices := instead.devices
	for _, g := range parseDevices(s.Devices).gpus {
		devices = append(devices, gpu.Device{Name: g.name, Ordinal: g.id})
	}
	if len(devices) == 0 || s.GPUTelemetry == config.GPUTelemetryOff {
		return nil
	}
	settings := nvidia.Config{Library: instead.library, Patience: instead.patience, Devices: devices, Logger: log}
	// Set to nothing, the variable hides every GPU from CUDA. That differs from a variable that is not set.
	if visible, isSet := os.LookupEnv("CUDA_VISIBLE_DEVICES"); isSet {
		settings.Visible = &visible
	}
	w := &gpuWatch{missing: map[string]string{}}
	source, err := nvidia.Open(settings)
	if err != nil {
		// Metrics count by the reason: it is one word.
		reason := "failed"
		if u, ok := errors.AsType[*nvidia.UnavailableError](err); ok {
			reason = u.Reason
		}
		for _, d := range devices {
			w.missing[d.Name] = reason
		}
		log.Warn("GPU telemetry unavailable", "event", "gpu_telemetry_failed",
			"effect", "estimates rely on what executions take", "cause", err)
		return w
	}
	for _, d := range source.Missing() {
		w.missing[d.Name] = "no_device"
		log.Warn("GPU not shown by the driver", "event", "gpu_not_shown", "device", d.Name,
			"effect", "estimates rely on what executions take")
	}
	for _, d := range source.Devices() {
		log.Info("GPU followed", "event", "gpu_followed", "device", d.Name, "product", d.Product, "uuid", d.UUID,
			"bus", d.Bus)
	}
	w.close = source.Close
	w.sampler = gpu.NewSampler(gpu.Config{
		Source: source, Devices: source.Devices(), Interval: instead.interval, Logger: log,
		OnLost: func(d gpu.Device, cause error) {
			if otherOrder() { // else a sound one might be given up in its place
				log.Error("GPU lost, CUDA ordinal unknown", "event", "gpu_lost", "driver_counts_it_as", d.Name,
					"cuda_device_order", os.Getenv(orderName), "effect", "used until runs on it fail", "cause", cause)
				return
			}
			lost(d, fmt.Errorf("the driver says so: %w", cause))
		},
	})
	return w
}

// part reads the state until it is stopped, and then lets go of the driver. A driver that hangs is left behind, with
// its goroutine: it must not hold up the stop.
func (w *gpuWatch) part(log *slog.Logger) lifecycle.Part {
	w.began = time.Now()
	return untilStopped("GPU telemetry", func(ctx context.Context) error {
		closed := make(chan error, 1)
		go func() {
			w.sampler.Run(ctx)
			closed <- w.close()
		}()
		<-ctx.Done()
		late := time.NewTimer(driverPatience)
		defer late.Stop()
		select {
		case err := <-closed:
			return err
		case <-late.C:
			log.Warn("GPU driver left behind, no answer", "event", "gpu_driver_abandoned", "waited", driverPatience)
			return nil
		}
	})
}

// driverPatience is how long a stop, and a question for free memory, wait for a driver. A sound one answers within
// milliseconds.
const driverPatience = 2 * time.Second

// Sample implements shell.Telemetry. It neither blocks nor allocates. The number 0 says that there is no sample yet.
func (w *gpuWatch) Sample(device string) (cost.Sample, uint64) {
	if w.sampler == nil {
		return cost.Sample{}, 0
	}
	s, number := w.sampler.Latest(device)
	return costSample(&s), number
}

// free is host.Config.FreeMemory. It reads the memory again, because the latest sample may not show yet a model that
// was loaded a moment ago. A driver that hangs holds it up for driverPatience at most, and not at all once the driver's
// sample has expired.
func (w *gpuWatch) free(device string) (bytes int64, known bool) {
	if w.sampler == nil {
		return 0, false
	}
	s, number := w.sampler.Latest(device)
	if s.Expired || number == 0 && time.Since(w.began) > driverPatience {
		return 0, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), driverPatience)
	defer cancel()
	if _, free, err := w.sampler.ReadMemory(ctx, device); err == nil {
		return free, true
	}
	// The sample is a little old, and better than no bound.
	s, _ = w.sampler.Latest(device)
	return s.MemoryFree, s.Has(gpu.Memory) && !s.Expired && !s.Lost
}

// costSample returns the part of a sample that estimates need. Values that are not known are zero in both types.
func costSample(s *gpu.Sample) cost.Sample {
	return cost.Sample{
		Clock: s.Clock, MaxClock: s.MaxClock, Idle: s.Idle(), Throttled: s.Reasons&gpu.Throttled != 0,
		Cooling: s.Reasons&gpu.SWThermal != 0, CoTenant: s.CoTenant, MemoryFree: s.MemoryFree,
		MemoryTotal: s.MemoryTotal,
		// Nothing is known of a lost device, and nothing will run on it.
		Expired: s.Expired || s.Lost,
	}
}

// list returns the GPUs as metrics show them. Each that cannot be followed counts as one fall-back, with the reason.
func (w *gpuWatch) list() []telemetry.GPU {
	var all []telemetry.GPU
	for name, reason := range w.missing {
		all = append(all, telemetry.GPU{Device: gpu.Device{Name: name}, FallBacks: map[string]int64{reason: 1}})
	}
	if w.sampler == nil {
		return all
	}
	for _, d := range w.sampler.Devices() {
		s, _ := w.sampler.Latest(d.Name)
		all = append(all, telemetry.GPU{Device: d, Sample: s, FallBacks: w.sampler.FallBacks(d.Name)})
	}
	return all
}

const (
	// CUDA counts the fastest GPU first unless this variable says otherwise. NVML counts by bus.
	orderName = "CUDA_DEVICE_ORDER"
	byBus     = "PCI_BUS_ID"
)

// otherOrder reports whether the environment has CUDA count the GPUs in another order than the driver's telemetry does.
// Then cuda:0 of the one may be another GPU than number 0 of the other.
func otherOrder() bool {
	order := os.Getenv(orderName)
	return order != "" && order != byBus
}

// countByBus makes CUDA count the GPUs by their places on the bus, as the driver's telemetry does, unless the
// environment says otherwise. Call it before a CUDA library is loaded, which reads the variable once. Workers inherit
// it.
func (d devices) countByBus(log *slog.Logger) {
	if len(d.gpus) == 0 {
		return
	}
	if otherOrder() {
		log.Warn("CUDA device order unknown to GPU telemetry", "event", "gpu_order_unknown",
			"cuda_device_order", os.Getenv(orderName),
			"effect", "with unlike GPUs, cuda:N may be shown the state of another; none is given up as lost",
			"remedy", orderName+"="+byBus)
		return
	}
	if err := os.Setenv(orderName, byBus); err != nil {
		log.Warn("CUDA device order not set", "event", "gpu_order_unset",
			"effect", "CUDA may count GPUs in another order than GPU telemetry", "cause", err)
	}
}

// activity returns the latest samples of the GPUs for what is shown live, by device; nil where none are followed. w may
// be nil. Values that the driver does not tell are left out, because zero would look measured.
func (w *gpuWatch) activity() map[string]*weftv1.GpuActivity {
	if w == nil {
		return nil
	}
	out := map[string]*weftv1.GpuActivity{}
	for _, g := range w.list() {
		s := &g.Sample
		known := func(q gpu.Quantity, value float64) *float64 {
			if !s.Has(q) {
				return nil
			}
			return &value
		}
		// Samples have MHz and per mille, the API has hertz and parts of 1.
		a := &weftv1.GpuActivity{
			Product:    g.Product,
			ClockHertz: known(gpu.Clock, 1e6*float64(s.Clock)), ClockMaxHertz: known(gpu.MaxClock, 1e6*float64(s.MaxClock)),
			PowerWatts: known(gpu.Power, s.Power), PowerLimitWatts: known(gpu.PowerLimit, s.PowerLimit),
			TemperatureCelsius: known(gpu.Temperature, float64(s.Temperature)),
			MemoryUsedBytes:    known(gpu.Memory, float64(s.MemoryUsed)),
			MemoryTotalBytes:   known(gpu.Memory, float64(s.MemoryTotal)),
			Utilization:        known(gpu.Utilisation, float64(s.Utilisation)/1000),
			CoTenantShare:      known(gpu.CoTenants, float64(s.CoTenant)/1000),
		}
		if s.Has(gpu.EventReasons) {
			a.ClockEvents = s.Reasons.Names()
		}
		out[g.Name] = a
	}
	return out
}
