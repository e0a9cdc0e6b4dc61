// Package ort runs models on ONNX Runtime.
//
// Two parts share the work. The Go binding (github.com/yalue/onnxruntime_go) owns the library, its environment, session
// options, execution providers and the life of sessions. A thin C layer (capi.h) describes signatures and runs
// sessions, because the binding cannot: it fails on fp16, bf16 and scalar outputs whose shape is unknown before the
// run, refuses scalar and empty tensors over foreign memory, cuts strings at a zero byte, drops ONNX Runtime's error
// codes and does not give the symbolic names of dimensions. One call of the C layer makes the values, runs, and
// releases them, where the binding crosses from Go to C once per value and step.
//
// The layer does not include ONNX Runtime's C header: cgo cannot find a header inside another module, and a copied or
// generated one would make `go build`, linters and `go install` depend on a step before them. calls.h declares the few
// entries it uses of the function table, which ONNX Runtime only ever appends to, and a test compares each with the
// header inside the binding's module, by the C compiler.
//
// On CUDA devices the layer also does three things that the binding cannot express: it names the CUDA graph of a run,
// keeps device memory at fixed addresses for it (graph.h), and finds the CUDA runtime, which is never linked, to copy
// there and to page-lock host memory (cudart.h). docs/install/gpu.md explains how and why.
//
// The layer reads the session's address from an unexported field of the binding by reflection; Open fails with a
// sentence, not a crash, should a later binding rename it.
package ort

/*
#cgo linux LDFLAGS: -ldl
#include <stdlib.h>
#include "capi.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	onnxruntime "github.com/yalue/onnxruntime_go"
)

// apiVersion is the version of the C API that the binding asks for, and so the oldest minor release that can be used.
const apiVersion = 24

// library is the ONNX Runtime of this process; the binding allows for one.
var library struct {
	mu      sync.Mutex
	path    string // "" until Init
	version string
	api     *C.weft_api
	open    int // sessions that are open or being opened
	// operators are the libraries of custom operators that were found usable together at last.
	operators []string
}

// Init loads the ONNX Runtime shared library at path. A second call with the same path does nothing; another path is an
// error, since a process holds one library.
func Init(path string) error {
	library.mu.Lock()
	defer library.mu.Unlock()
	if library.api != nil {
		if path != library.path {
			return fmt.Errorf("ONNX Runtime is already loaded from %s: a process cannot also load %s", library.path,
				path)
		}
		return nil
	}
	api := (*C.weft_api)(C.calloc(1, C.size_t(unsafe.Sizeof(C.weft_api{}))))
	version, err := load(api, path)
	if err != nil {
		C.weft_unload(api)
		C.free(unsafe.Pointer(api))
		return err
	}
	library.path, library.version, library.api = path, version, api
	return nil
}

func load(api *C.weft_api, path string) (version string, err error) {
	runtime.LockOSThread() // the words of a fault are the thread's
	defer runtime.UnlockOSThread()
	if err := silence(); err != nil {
		return "", err
	}
	C.weft_heap_bound()
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	cVersion := new(*C.char)
	if fault := C.weft_open(api, name, cVersion); fault != nil {
		return "", fmt.Errorf("cannot load the ONNX Runtime library %s: %s", path, C.GoString(fault))
	}
	version = C.GoString(*cVersion)
	if !bool(C.weft_bind(api, apiVersion)) {
		return "", fmt.Errorf("the ONNX Runtime library %s is version %s, need 1.%d or newer", path, version,
			apiVersion)
	}
	onnxruntime.SetSharedLibraryPath(path)
	// A failed run is returned and answered; ONNX Runtime would also print it.
	if err := onnxruntime.InitializeEnvironment(onnxruntime.WithLogLevelFatal()); err != nil {
		return "", fmt.Errorf("cannot start ONNX Runtime %s (%s): %w", version, path, err)
	}
	if err := take(api, C.weft_prepare(api)); err != nil {
		return "", errors.Join(fmt.Errorf("cannot start ONNX Runtime %s (%s): %w", version, path, err),
			onnxruntime.DestroyEnvironment())
	}
	return version, nil
}

// silence turns telemetry off, whatever the user's environment says. Since 1.29 the library keeps a store in the user's
// cache and logs in the folder for temporary files, from the moment on at which the environment is created.
// DisableTelemetryEvents of the C API comes too late, as it takes an environment; this variable is read before anything
// is written, or sent.
func silence() error { return os.Setenv("ORT_DISABLE_TELEMETRY", "1") }

// Version returns the version of the loaded library, such as 1.30.0, or "" before Init.
func Version() string {
	library.mu.Lock()
	defer library.mu.Unlock()
	return library.version
}

// Shutdown unloads the library. Every session must be closed first.
func Shutdown() error {
	library.mu.Lock()
	defer library.mu.Unlock()
	if library.api == nil {
		return nil
	}
	if library.open > 0 {
		return fmt.Errorf("cannot unload ONNX Runtime: %d sessions are open", library.open)
	}
	C.weft_unload(library.api)
	C.free(unsafe.Pointer(library.api))
	library.path, library.version, library.api, library.operators = "", "", nil, nil
	return onnxruntime.DestroyEnvironment()
}

// Providers returns the execution providers of Options.Providers that the loaded library has. Whether they can be used
// shows when a model is opened. Those that come as libraries of their own, next to the library, are there if these
// files are: the library's own list says how it was built, and it may have been built for providers that were left out,
// or have been given others since.
func Providers() ([]string, error) {
	api, err := hold()
	if err != nil {
		return nil, err
	}
	defer release()
	names, count := new(**C.char), new(C.int)
	if err := take(api, C.weft_providers(api, names, count)); err != nil {
		return nil, err
	}
	defer C.weft_providers_free(api, *names, *count)
	built := unsafe.Slice(*names, *count)
	var list []string
	for _, p := range providerNames {
		has := slices.ContainsFunc(built, func(name *C.char) bool { return C.GoString(name) == p.theirs })
		if p.file != "" {
			_, err := os.Stat(providerLibrary(p.file))
			has = err == nil
		}
		if has {
			list = append(list, p.ours)
		}
	}
	return list, nil
}

// sharedLibrary is the name of the file of a library.
func sharedLibrary(name string) string {
	switch runtime.GOOS {
	case "windows":
		return name + ".dll"
	case "darwin":
		return "lib" + name + ".dylib"
	default:
		return "lib" + name + ".so"
	}
}

// hold keeps the library loaded until release.
func hold() (*C.weft_api, error) {
	library.mu.Lock()
	defer library.mu.Unlock()
	if library.api == nil {
		return nil, errors.New("ONNX Runtime is not loaded: call Init first")
	}
	library.open++
	return library.api, nil
}

func release() {
	library.mu.Lock()
	defer library.mu.Unlock()
	library.open--
}
