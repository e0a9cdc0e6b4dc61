//go:build !linux || !cgo

package nvidia

import "github.com/weftserve/weft/gpu"

// Source is never made by this build.
type Source struct{}

// Open says that this build knows no NVML.
func Open(Config) (*Source, error) {
	return nil, &UnavailableError{
		"not_built",
		"this build of the program does not know NVIDIA's NVML, which needs Linux and cgo",
	}
}

// Devices is never called.
func (*Source) Devices() []gpu.Device { return nil }

// Missing is never called.
func (*Source) Missing() []gpu.Device { return nil }

// Read is never called.
func (*Source) Read(int, gpu.Quantity, *gpu.Sample) error { return gpu.ErrNotSupported }

// Close is never called.
func (*Source) Close() error { return nil }
