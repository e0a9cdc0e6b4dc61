//go:build linux && cgo

package nvidia

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// found is a GPU of the machine.
type found struct {
	whole
	handle    nvml.Device
	product   string
	bus       bus
	instances []instance // of each of the whole's parts
}

// instance is a MIG instance.
type instance struct {
	handle nvml.Device
	number uint32 // on its GPU
}

// bus is where a GPU is.
type bus struct{ domain, bus, device uint32 }

func (b bus) String() string { return fmt.Sprintf("%04x:%02x:%02x", b.domain, b.bus, b.device) }

// machine lists the GPUs that the process may use, by their places on the bus: NVML does not promise an order.
func (s *Source) machine() ([]found, error) {
	count, ret := s.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, &UnavailableError{
			"no_driver",
			"the NVIDIA driver does not tell how many GPUs there are: " + describe(ret),
		}
	}
	var list []found
	for i := range count {
		handle, ret := s.lib.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			continue // not ours to use, or gone: CUDA does not count it either
		}
		f := found{handle: handle}
		if f.uuid, ret = handle.GetUUID(); ret != nvml.SUCCESS {
			continue
		}
		if s.has("nvmlDeviceGetName") {
			f.product, _ = handle.GetName()
		}
		if s.has("nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo") {
			if at, ret := handle.GetPciInfo(); ret == nvml.SUCCESS {
				f.bus = bus{at.Domain, at.Bus, at.Device}
			}
		}
		s.divide(&f)
		list = append(list, f)
	}
	slices.SortStableFunc(list, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.bus.domain, b.bus.domain), cmp.Compare(a.bus.bus, b.bus.bus),
			cmp.Compare(a.bus.device, b.bus.device))
	})
	return list, nil
}

// divide finds the MIG instances of a GPU.
func (s *Source) divide(f *found) {
	if !s.has("nvmlDeviceGetMigMode") || !s.has("nvmlDeviceGetMaxMigDeviceCount") ||
		!s.has("nvmlDeviceGetMigDeviceHandleByIndex") {
		return
	}
	if mode, _, ret := f.handle.GetMigMode(); ret != nvml.SUCCESS || mode != nvml.DEVICE_MIG_ENABLE {
		return
	}
	most, ret := f.handle.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		return
	}
	for i := range most {
		handle, ret := f.handle.GetMigDeviceHandleByIndex(i)
		if ret != nvml.SUCCESS {
			continue // places may be empty
		}
		uuid, ret := handle.GetUUID()
		if ret != nvml.SUCCESS {
			continue
		}
		number := uint32(noInstance)
		if s.has("nvmlDeviceGetGpuInstanceId") {
			if id, ret := handle.GetGpuInstanceId(); ret == nvml.SUCCESS {
				number = uint32(id)
			}
		}
		f.parts = append(f.parts, uuid)
		f.instances = append(f.instances, instance{handle, number})
	}
}
