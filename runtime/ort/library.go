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
}

// Init loads the ONNX Runtime shared library at path. A second call with the same path does nothing; another path is an
// error, since a process holds one library.
func Init(path string) error {
	library.mu.Lock()
	defer library.mu.Unlock()
	if library.api != nil {
		if path != library.path {
			return fmt.Errorf("ONNX Runtime is already loaded from %s: a process cannot also load %s", library.path, path)
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
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	cVersion := new(*C.char)
	if fault := C.weft_open(api, name, cVersion); fault != nil {
		return "", fmt.Errorf("cannot load the ONNX Runtime library %s: %s", path, C.GoString(fault))
	}
	version = C.GoString(*cVersion)
	if !bool(C.weft_bind(api, apiVersion)) {
		return "", fmt.Errorf("the ONNX Runtime library %s is version %s, need 1.%d or newer", path, version, apiVersion)
	}
	onnxruntime.SetSharedLibraryPath(path)
	// A failed run is returned and answered; ONNX Runtime would also print it.
	if err := onnxruntime.InitializeEnvironment(onnxruntime.WithLogLevelFatal()); err != nil {
		return "", fmt.Errorf("cannot start ONNX Runtime %s (%s): %w", version, path, err)
	}
	if err := take(api, C.weft_prepare(api)); err != nil {
		return "", errors.Join(fmt.Errorf("cannot start ONNX Runtime %s (%s): %w", version, path, err), onnxruntime.DestroyEnvironment())
	}
	return version, nil
}

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
	library.path, library.version, library.api = "", "", nil
	return onnxruntime.DestroyEnvironment()
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
