package gpu

import "errors"

// Source knows the state of GPUs, as a driver does. One goroutine asks at a time.
type Source interface {
	// Read fills in one quantity of the device, which is numbered by its place in [Config.Devices], and marks it as
	// known in s; or as not known, where there is just nothing to say. It may block for as long as the driver does.
	//
	// An error leaves s as it was. It wraps ErrNotSupported if the device or its driver will never know the quantity,
	// ErrLost if the device is gone, and else says why it failed this time.
	Read(device int, q Quantity, s *Sample) error
}

var (
	// ErrNotSupported marks a quantity that is unknown for good.
	ErrNotSupported = errors.New("the device or its driver does not tell this")
	// ErrLost marks a device that does not answer any more: it fell off the bus, or must be reset.
	ErrLost = errors.New("the GPU is lost")
)
