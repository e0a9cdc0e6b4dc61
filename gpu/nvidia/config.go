package nvidia

import (
	"log/slog"
	"time"

	"github.com/weftserve/weft/gpu"
)

// Config holds the settings of a Source.
type Config struct {
	// Library is the file name or path of NVML; empty: libnvidia-ml.so.1, where the system finds it. There can be one
	// per process.
	Library string
	// Devices are those to watch, by Name and Ordinal; the rest is filled in.
	Devices []gpu.Device
	// Visible is the CUDA_VISIBLE_DEVICES of the process; nil: it is not set. It decides which devices the ordinals
	// count.
	Visible *string
	// Patience is how long Open waits for the driver. Zero: 10 s. Where GPUs are not kept initialised the driver takes
	// seconds for that.
	Patience time.Duration
	// Logger gets the errors that the driver reports (XIDs), each number once per device. Nil: slog.Default().
	Logger *slog.Logger
}

// UnavailableError says that there is no NVML to ask, or no device to ask it about.
type UnavailableError struct {
	// Reason is a word for counting: not_built, no_library, old_driver, no_driver, no_answer or no_device.
	Reason string
	text   string
}

func (e *UnavailableError) Error() string { return e.text }
