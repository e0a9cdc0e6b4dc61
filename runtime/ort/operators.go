package ort

/*
#include <stdlib.h>
#include "capi.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	onnxruntime "github.com/yalue/onnxruntime_go"
)

// loadOperators loads libraries of custom operators, and finds out whether models may use them, before a fault of one
// could be taken for a fault of a model or of a provider. A library stays loaded: a process goes on with the file that
// it has read, whatever takes its place.
func loadOperators(paths []string) error {
	library.mu.Lock()
	known := slices.Equal(library.operators, paths)
	library.mu.Unlock()
	if known {
		return nil
	}
	for i, path := range paths {
		err := loadLibrary(path)
		if err == nil {
			err = tryOperators(paths[:i+1])
		}
		if err != nil {
			return fmt.Errorf("cannot use the operator library %s, named by --ort-ops: %w", path, err)
		}
	}
	library.mu.Lock()
	library.operators = slices.Clone(paths)
	library.mu.Unlock()
	return nil
}

func loadLibrary(path string) error {
	runtime.LockOSThread() // the words of a fault are the thread's
	defer runtime.UnlockOSThread()
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	if fault := C.weft_load_operators(name); fault != nil {
		return explainOperators(strings.TrimPrefix(C.GoString(fault), path+": "))
	}
	return nil
}

// ofPython finds the symbol of Python's that a library lacks, in the words of the loaders of Linux and macOS.
var ofPython = regexp.MustCompile(`undefined symbol: (_?Py\w+)|ymbol not found .*'_(_?Py\w+)'`)

// explainOperators says what to do about a library that cannot be loaded, by the loader's words.
func explainOperators(fault string) error {
	if m := ofPython.FindStringSubmatch(fault); m != nil {
		return fmt.Errorf("it needs Python (undefined symbol: %s), as the library in the Python package "+
			"onnxruntime-extensions does, and there is none here; build the C++ library of onnxruntime-extensions instead "+
			"(build.sh in its sources makes libortextensions)", m[1]+m[2])
	}
	if m := notFound.FindStringSubmatch(fault); m != nil {
		return fmt.Errorf("it needs %s, which is not found, or may not be read; install it where the system looks, such as "+
			"a folder in LD_LIBRARY_PATH", m[1])
	}
	return fmt.Errorf("%s; expected a shared library for this system that exports RegisterCustomOps, by which ONNX "+
		"Runtime asks for custom operators", fault)
}

// registerOperators has sessions of the options know the operators of the libraries.
func registerOperators(options *onnxruntime.SessionOptions, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	to, err := nativeOptions(options)
	if err != nil {
		return err
	}
	api, err := hold()
	if err != nil {
		return err
	}
	defer release()
	for _, path := range paths {
		name := C.CString(path)
		err := take(api, C.weft_register_operators(api, to, name))
		C.free(unsafe.Pointer(name))
		if err != nil {
			return fmt.Errorf("%w; a library for a newer ONNX Runtime than %s must be built for that", err, Version())
		}
	}
	return nil
}

// ownDomains are the domains of the operators that ONNX Runtime has itself, and package structure has rules for.
var ownDomains = [...]string{"", "ai.onnx", "ai.onnx.ml", "com.microsoft"}

// domainTaken is ONNX Runtime's word for a domain that is registered twice.
const domainTaken = "Domain already set in registry"

// emptyModel is an ONNX model whose output is its input.
const emptyModel = "\x08\x08\x42\x02\x10\x11" + // ir_version 8, operator set 17
	":\x19\x12\x01gZ\x09\x0a\x01x\x12\x04\x0a\x02\x08\x01b\x09\x0a\x01x\x12\x04\x0a\x02\x08\x01" // graph g: x, fp32

// tryOperators opens a model without operators. ONNX Runtime prefers the operators of a library to its own, which
// nothing here would notice: neither the proof that rows are independent, nor who looks at the model. So each domain
// of its own is claimed as by another library, and ONNX Runtime refuses a domain that two have.
func tryOperators(paths []string) error {
	api, err := hold()
	if err != nil {
		return err
	}
	defer release()
	options, err := onnxruntime.NewSessionOptions()
	if err != nil {
		return err
	}
	defer func() { _ = options.Destroy() }() // fails only on options that were never made
	if err := registerOperators(options, paths); err != nil {
		return err
	}
	to, err := nativeOptions(options)
	if err != nil {
		return err
	}
	claimed := make([]*C.OrtCustomOpDomain, len(ownDomains))
	defer func() {
		for _, domain := range claimed {
			C.weft_release_domain(api, domain)
		}
	}()
	for i, domain := range ownDomains {
		name := C.CString(domain)
		err := take(api, C.weft_claim_domain(api, to, name, &claimed[i]))
		C.free(unsafe.Pointer(name))
		if err != nil {
			return err
		}
	}
	session, err := onnxruntime.NewDynamicAdvancedSessionWithONNXData([]byte(emptyModel), nil, nil, options)
	switch {
	case err == nil:
		return session.Destroy()
	case strings.Contains(err.Error(), domainTaken):
		return errors.New("it has operators of a domain of ONNX Runtime's own (ai.onnx, ai.onnx.ml, com.microsoft), or of " +
			"a library that is named before it; expected operators of another domain, whose name nobody else has")
	}
	return explain(err)
}
