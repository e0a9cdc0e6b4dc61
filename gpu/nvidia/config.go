// Package nvidia reads the state of NVIDIA GPUs through the driver's library, libnvidia-ml (NVML).
//
// The library is found when the program runs, never when it is linked, so that the same program serves a machine
// without a GPU. Its binding resolves each function when it is called first, and a function that is not there ends the
// process on the spot: so no function is called before the library was loaded and initialised, and none that [Source]
// did not look up. For the same reason a Return of the binding is never formatted (its Error method asks the library
// for the text), and a library that was loaded once stays loaded, since the addresses that were resolved stay too.
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
