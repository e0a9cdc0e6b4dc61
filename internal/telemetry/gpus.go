package telemetry

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/weftserve/weft/gpu"
)

// GPU holds the known facts of one device.
type GPU struct {
	gpu.Device
	// Sample is the latest; its time is zero if there was none.
	gpu.Sample
	// FallBacks counts by reason how often something less than a fresh and whole sample had to do.
	FallBacks map[string]int64
}

// gpuGauge is a metric of a quantity of a GPU.
type gpuGauge struct {
	name, text string
	of         gpu.Quantity // is shown only where this is known
	value      func(*gpu.Sample) float64
	counts     bool
}

// gpuGauges are the metrics of quantities. Samples count in MHz and per mille, and metrics in base units.
var gpuGauges = []gpuGauge{
	{
		"weft_gpu_clock_hertz", "Clock of the multiprocessors of a GPU.", gpu.Clock,
		func(s *gpu.Sample) float64 { return 1e6 * float64(s.Clock) }, false,
	},
	{
		"weft_gpu_clock_max_hertz", "Highest clock of the multiprocessors of a GPU.", gpu.MaxClock,
		func(s *gpu.Sample) float64 { return 1e6 * float64(s.MaxClock) }, false,
	},
	{
		"weft_gpu_memory_total_bytes", "Memory of a GPU.", gpu.Memory,
		func(s *gpu.Sample) float64 { return float64(s.MemoryTotal) }, false,
	},
	{
		"weft_gpu_memory_used_bytes", "Memory of a GPU that is in use, by whomever.", gpu.Memory,
		func(s *gpu.Sample) float64 { return float64(s.MemoryUsed) }, false,
	},
	{
		"weft_gpu_memory_free_bytes",
		"Memory of a GPU that can be had; the driver keeps some that is neither used nor free.", gpu.Memory,
		func(s *gpu.Sample) float64 { return float64(s.MemoryFree) }, false,
	},
	{
		"weft_gpu_utilization_ratio", "Part of the time in which anything ran on a GPU, whoever ran it.",
		gpu.Utilisation,
		func(s *gpu.Sample) float64 { return float64(s.Utilisation) / 1000 }, false,
	},
	{
		"weft_gpu_co_tenant_ratio", "Share of the multiprocessors of a GPU that other processes use.", gpu.CoTenants,
		func(s *gpu.Sample) float64 { return float64(s.CoTenant) / 1000 }, false,
	},
	{
		"weft_gpu_power_watts", "Power that a GPU draws.", gpu.Power,
		func(s *gpu.Sample) float64 { return s.Power }, false,
	},
	{
		"weft_gpu_power_limit_watts", "Power that a GPU may draw.", gpu.PowerLimit,
		func(s *gpu.Sample) float64 { return s.PowerLimit }, false,
	},
	{
		"weft_gpu_temperature_celsius", "Temperature of a GPU.", gpu.Temperature,
		func(s *gpu.Sample) float64 { return float64(s.Temperature) }, false,
	},
	{
		"weft_gpu_ecc_errors_total", "Memory errors of a GPU that could not be corrected, since its driver was loaded.",
		gpu.ECC,
		func(s *gpu.Sample) float64 { return float64(s.ECC) }, true,
	},
	{
		"weft_gpu_xid_errors_total", "Errors that the driver reported of a GPU (XIDs), whoever caused them.", gpu.XIDs,
		func(s *gpu.Sample) float64 { return float64(s.XIDs) }, true,
	},
}

// observeGPUs adds the metrics of GPUs, which list returns when the metrics are read. A value that is not known has no
// series rather than a 0.
func observeGPUs(m metric.Meter, list func() []GPU) error {
	i := observed{meter: m}
	info := i.floatGauge("weft_gpu_info", "1 for each GPU that is followed, with what it is.")
	age := i.floatGauge("weft_gpu_sample_age_seconds", "How old the latest values of a GPU are.")
	lost := i.floatGauge("weft_gpu_lost", "Whether a GPU was gone when it was last asked: 1 or 0.")
	reasons := i.floatGauge("weft_gpu_clock_event",
		"Whether this is a reason for a GPU not to run at its highest clock: 1 or 0.")
	fallBacks := i.floatCounter("weft_gpu_fallbacks_total",
		"How often there was less than a fresh and whole sample of a GPU, by why.")
	values := make([]metric.Float64Observable, len(gpuGauges))
	for n, g := range gpuGauges {
		if g.counts {
			values[n] = i.floatCounter(g.name, g.text)
		} else {
			values[n] = i.floatGauge(g.name, g.text)
		}
	}
	return i.by(func(o metric.Observer) {
		for _, d := range list() {
			device := attribute.String("device", d.Name)
			labels := metric.WithAttributes(device)
			for reason, n := range d.FallBacks {
				o.ObserveFloat64(fallBacks, float64(n),
					metric.WithAttributes(device, attribute.String("reason", reason)))
			}
			if d.UUID == "" { // not found
				continue
			}
			o.ObserveFloat64(info, 1,
				metric.WithAttributes(device, attribute.String("uuid", d.UUID), attribute.String("product", d.Product)))
			o.ObserveFloat64(lost, truth(d.Lost), labels)
			if !d.At.IsZero() {
				o.ObserveFloat64(age, d.Age().Seconds(), labels)
			}
			for n, g := range gpuGauges {
				if d.Has(g.of) {
					o.ObserveFloat64(values[n], g.value(&d.Sample), labels)
				}
			}
			if d.Has(gpu.EventReasons) {
				// Reasons are bits. Each has a series, so that a query finds a 0.
				for r := gpu.Reasons(1); r <= gpu.AllReasons; r <<= 1 {
					o.ObserveFloat64(reasons, truth(d.Reasons&r != 0),
						metric.WithAttributes(device, attribute.String("reason", r.String())))
				}
			}
		}
	})
}

// truth returns a condition as a metric has it.
func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
