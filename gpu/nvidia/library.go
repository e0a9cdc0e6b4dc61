//go:build linux && cgo

package nvidia

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

const defaultLibrary = "libnvidia-ml.so.1"

// loaded is the one library of the process: its functions are found by their names alone.
var loaded struct {
	sync.Mutex
	path string
}

// needed are the functions without which nothing can be read. Where there are several names, one is enough.
var needed = [][]string{
	{"nvmlInit_v2", "nvmlInit"},
	{"nvmlShutdown"},
	{"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"},
	{"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"},
	{"nvmlDeviceGetUUID"},
}

// load loads the library and initialises it. Nothing of it may be called if that fails.
func load(path string) (nvml.Interface, error) {
	path = cmp.Or(path, defaultLibrary)
	loaded.Lock()
	defer loaded.Unlock()
	if loaded.path != "" && loaded.path != path {
		return nil, fmt.Errorf("cannot load %s as well: %s is loaded already", path, loaded.path)
	}
	// This handle is never closed, so that the library stays where it is. It shows which functions the library has
	// before any is called.
	library := dl.New(path, dl.RTLD_LAZY|dl.RTLD_GLOBAL)
	if err := library.Open(); err != nil {
		return nil, &UnavailableError{"no_library", fmt.Sprintf("no NVIDIA driver library (NVML): %v", err)}
	}
	loaded.path = path
	for _, names := range needed {
		if !slices.ContainsFunc(names, func(name string) bool { return library.Lookup(name) == nil }) {
			return nil, &UnavailableError{
				"old_driver",
				fmt.Sprintf("the NVIDIA driver library %s is too old, or something else: it lacks %s", path, names[0]),
			}
		}
	}
	lib := nvml.New(nvml.WithLibraryPath(path))
	if ret := lib.Init(); ret != nvml.SUCCESS {
		return nil, &UnavailableError{"no_driver", "the NVIDIA driver cannot be used: " + describe(ret)}
	}
	return lib, nil
}

// describe returns the meaning of a Return. The methods of Return must not be used: they ask the library, which may not
// have the function.
func describe(ret nvml.Return) string {
	if text, ok := returns[ret]; ok {
		return text
	}
	return fmt.Sprintf("NVML error %d", int32(ret))
}

var returns = map[nvml.Return]string{
	nvml.ERROR_UNINITIALIZED:      "NVML is not initialised",
	nvml.ERROR_INVALID_ARGUMENT:   "NVML does not accept an argument",
	nvml.ERROR_NOT_SUPPORTED:      "not supported",
	nvml.ERROR_NO_PERMISSION:      "no permission",
	nvml.ERROR_NOT_FOUND:          "not found",
	nvml.ERROR_INSUFFICIENT_SIZE:  "NVML had more to say than a moment before",
	nvml.ERROR_INSUFFICIENT_POWER: "a power cable of the GPU is missing",
	nvml.ERROR_DRIVER_NOT_LOADED:  "the driver is not loaded",
	nvml.ERROR_TIMEOUT:            "the driver took too long",
	nvml.ERROR_IRQ_ISSUE:          "the driver has trouble with the interrupts of a GPU",
	nvml.ERROR_LIBRARY_NOT_FOUND:  "the library cannot be loaded",
	nvml.ERROR_FUNCTION_NOT_FOUND: "the driver's library does not have the function",
	nvml.ERROR_GPU_IS_LOST:        "the GPU fell off the bus, or cannot be reached for another reason",
	nvml.ERROR_RESET_REQUIRED:     "the GPU must be reset",
	nvml.ERROR_OPERATING_SYSTEM:   "the operating system keeps the process from the GPU",
	nvml.ERROR_LIB_RM_VERSION_MISMATCH: "the driver and its library differ in their versions: one was updated " +
		"without " +
		"a restart",
	nvml.ERROR_IN_USE:  "the GPU is in use",
	nvml.ERROR_MEMORY:  "NVML has no memory left",
	nvml.ERROR_NO_DATA: "no data",
	nvml.ERROR_UNKNOWN: "the driver failed without saying why",
}
