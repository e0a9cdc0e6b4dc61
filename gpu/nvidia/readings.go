//go:build linux && cgo

package nvidia

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/weftserve/weft/gpu"
)

// reading is a way to read a quantity.
type reading struct {
	symbol string // of the library, without which read must not be called
	read   func(d *device, s *gpu.Sample) nvml.Return
}

// readings are the ways to read each quantity. The first that the library and the device know is taken.
var readings = map[gpu.Quantity][]reading{
	gpu.Clock: {{"nvmlDeviceGetClockInfo", func(d *device, s *gpu.Sample) nvml.Return {
		clock, ret := d.whole.GetClockInfo(nvml.CLOCK_SM)
		s.Clock = int(clock)
		return ret
	}}},
	gpu.MaxClock: {{"nvmlDeviceGetMaxClockInfo", func(d *device, s *gpu.Sample) nvml.Return {
		clock, ret := d.whole.GetMaxClockInfo(nvml.CLOCK_SM)
		s.MaxClock = int(clock)
		return ret
	}}},
	gpu.EventReasons: {
		{"nvmlDeviceGetCurrentClocksEventReasons", func(d *device, s *gpu.Sample) nvml.Return {
			reasons, ret := d.whole.GetCurrentClocksEventReasons()
			s.Reasons = gpu.Reasons(reasons) & gpu.AllReasons
			return ret
		}},
		{"nvmlDeviceGetCurrentClocksThrottleReasons", func(d *device, s *gpu.Sample) nvml.Return { // before driver 535
			reasons, ret := d.whole.GetCurrentClocksThrottleReasons()
			s.Reasons = gpu.Reasons(reasons) & gpu.AllReasons
			return ret
		}},
	},
	gpu.Utilisation: {{"nvmlDeviceGetUtilizationRates", func(d *device, s *gpu.Sample) nvml.Return {
		rates, ret := d.own.GetUtilizationRates()
		s.Utilisation = 10 * int(rates.Gpu)
		return ret
	}}},
	gpu.Memory: {
		{"nvmlDeviceGetMemoryInfo_v2", func(d *device, s *gpu.Sample) nvml.Return {
			memory, ret := d.own.GetMemoryInfo_v2()
			s.MemoryTotal, s.MemoryUsed, s.MemoryFree = int64(memory.Total), int64(memory.Used), int64(memory.Free)
			return ret
		}},
		{"nvmlDeviceGetMemoryInfo", func(d *device, s *gpu.Sample) nvml.Return {
			memory, ret := d.own.GetMemoryInfo()
			s.MemoryTotal, s.MemoryUsed, s.MemoryFree = int64(memory.Total), int64(memory.Used), int64(memory.Free)
			return ret
		}},
	},
	gpu.Power: {{"nvmlDeviceGetPowerUsage", func(d *device, s *gpu.Sample) nvml.Return {
		milliwatts, ret := d.whole.GetPowerUsage()
		s.Power = float64(milliwatts) / 1000
		return ret
	}}},
	gpu.PowerLimit: {{"nvmlDeviceGetEnforcedPowerLimit", func(d *device, s *gpu.Sample) nvml.Return {
		milliwatts, ret := d.whole.GetEnforcedPowerLimit()
		s.PowerLimit = float64(milliwatts) / 1000
		return ret
	}}},
	gpu.Temperature: {
		{"nvmlDeviceGetTemperature", func(d *device, s *gpu.Sample) nvml.Return {
			degrees, ret := d.whole.GetTemperature(nvml.TEMPERATURE_GPU)
			s.Temperature = int(degrees)
			return ret
		}},
		{"nvmlDeviceGetTemperatureV", func(d *device, s *gpu.Sample) nvml.Return { // once the other is gone
			t, ret := d.whole.GetTemperatureV().V1()
			s.Temperature = int(t.Temperature)
			return ret
		}},
	},
	gpu.ECC: {{"nvmlDeviceGetTotalEccErrors", func(d *device, s *gpu.Sample) nvml.Return {
		count, ret := d.whole.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
		s.ECC = int64(count)
		return ret
	}}},
	gpu.CoTenants: {{"nvmlDeviceGetProcessUtilization", (*device).coTenant}},
	gpu.XIDs: {{"nvmlEventSetCreate", func(d *device, s *gpu.Sample) nvml.Return {
		if !d.hearsXIDs {
			return nvml.ERROR_NOT_SUPPORTED
		}
		s.XIDs, s.LastXID = d.xids.Load(), int(d.lastXID.Load())
		return nvml.SUCCESS
	}}},
}

// Read implements gpu.Source.
func (s *Source) Read(number int, q gpu.Quantity, into *gpu.Sample) error {
	d := s.devices[number]
	answer, ret := gpu.Sample{Known: q}, nvml.ERROR_FUNCTION_NOT_FOUND
	for _, r := range readings[q] {
		if !s.has(r.symbol) {
			continue
		}
		if ret = r.read(d, &answer); !isUnsupported(ret) {
			break
		}
	}
	switch {
	case ret == nvml.SUCCESS:
	case ret == nvml.ERROR_NO_DATA:
		answer = gpu.Sample{}
	case isUnsupported(ret):
		return fmt.Errorf("read %v: %w: %s", q, gpu.ErrNotSupported, describe(ret))
	case ret == nvml.ERROR_GPU_IS_LOST, ret == nvml.ERROR_RESET_REQUIRED:
		return fmt.Errorf("read %v: %w: %s", q, gpu.ErrLost, describe(ret))
	default:
		return fmt.Errorf("read %v: %s", q, describe(ret))
	}
	into.Set(q, &answer)
	return nil
}

// isUnsupported reports whether asking again would get the same answer.
func isUnsupported(ret nvml.Return) bool {
	switch ret {
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND, nvml.ERROR_NO_PERMISSION, nvml.ERROR_INVALID_ARGUMENT,
		nvml.ERROR_ARGUMENT_VERSION_MISMATCH, nvml.ERROR_DEPRECATED:
		return true
	default:
		return false
	}
}
