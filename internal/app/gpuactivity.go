package app

import (
	"github.com/weftserve/weft/gpu"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// activity returns the latest samples of the GPUs for people, by device; nil where none are followed.
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
