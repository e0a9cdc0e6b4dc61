package ort

/*
#include <stdlib.h>
#include "capi.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"syscall"
	"unsafe"

	onnxruntime "github.com/yalue/onnxruntime_go"

	"github.com/weftserve/weft/runtime/tensor"
)

// Source says where a model's bytes are.
type Source struct {
	// Path names the model file. Without File it is loaded from there, and external data is found next to it.
	Path string
	// File holds the model and its external data, and is read whenever a session is made. Nothing on disk is looked at
	// then. OpenSource takes it over. May be nil.
	File *os.File `json:"-"`
	// Model is the part of File that is the model file.
	Model Extent
	// External are the files of external data in File.
	External []ExternalFile
	// Large are the initializers in those files that are too large for a message: ONNX Runtime makes one of each of the
	// others.
	Large []LargeTensor
}

// Extent is a part of a file, in bytes.
type Extent struct{ Offset, Size int64 }

// ExternalFile is a file of external data, by the name that the model has for it.
type ExternalFile struct {
	Name string
	Extent
}

// LargeTensor is an initializer of external data, by the name that the graph has for it.
type LargeTensor struct {
	Name  string
	DType int32 // as ONNX numbers element types
	Shape tensor.Shape
	Extent
}

// nowhere is the directory that ONNX Runtime is told a model in memory lies in: there is none. It would look for
// external data that it was not given in the working directory otherwise.
const nowhere = "/proc/self/no-external-data"

// create makes a session from the options.
func (s *Source) create(options *onnxruntime.SessionOptions) (*onnxruntime.DynamicAdvancedSession, error) {
	if s.File == nil {
		return onnxruntime.NewDynamicAdvancedSession(s.Path, nil, nil, options)
	}
	info, err := s.File.Stat()
	if err != nil {
		return nil, err
	}
	all, err := syscall.Mmap(int(s.File.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("cannot map the model's copy: %w", err)
	}
	defer func() { _ = syscall.Munmap(all) }() // ONNX Runtime has copied what it needs
	model, err := s.Model.of(all)
	if err != nil {
		return nil, err
	}
	err = options.AddSessionConfigEntry("session.model_external_initializers_file_folder_path", nowhere)
	if err != nil {
		return nil, err
	}
	if len(s.External) > 0 {
		if err := s.give(options, all); err != nil {
			return nil, err
		}
	}
	return onnxruntime.NewDynamicAdvancedSessionWithONNXData(model, nil, nil, options)
}

// give tells ONNX Runtime where in memory the external data is.
func (s *Source) give(options *onnxruntime.SessionOptions, all []byte) error {
	to, err := nativeOptions(options)
	if err != nil {
		return err
	}
	api, err := hold()
	if err != nil {
		return err
	}
	defer release()
	for i := range s.Large {
		if err := s.Large[i].give(api, to, all); err != nil {
			return err
		}
	}
	n := len(s.External)
	names, files, sizes := make([]*C.char, n), make([]*C.char, n), make([]C.size_t, n)
	defer func() {
		for _, name := range names {
			C.free(unsafe.Pointer(name))
		}
	}()
	for i, e := range s.External {
		b, err := e.of(all)
		if err != nil {
			return err
		}
		if len(b) == 0 {
			b = all[:1] // an address is wanted also of no bytes
		}
		names[i], sizes[i] = C.CString(e.Name), C.size_t(e.Size)
		files[i] = (*C.char)(unsafe.Pointer(unsafe.SliceData(b)))
	}
	return take(api, C.weft_give_files(api, to, &names[0], &files[0], &sizes[0], C.size_t(n)))
}

// nativeOptions are the options as the C API has them.
func nativeOptions(options *onnxruntime.SessionOptions) (*C.OrtSessionOptions, error) {
	field := reflect.ValueOf(options).Elem().FieldByName("o")
	if field.Kind() != reflect.Pointer || field.IsNil() {
		return nil, errors.New("this version of github.com/yalue/onnxruntime_go keeps its session options elsewhere; " +
			"build with the version that go.mod names")
	}
	return (*C.OrtSessionOptions)(field.UnsafePointer()), nil
}

// give tells ONNX Runtime where in memory the initializer is.
func (l *LargeTensor) give(api *C.weft_api, options *C.OrtSessionOptions, all []byte) error {
	b, err := l.of(all)
	if err != nil {
		return err
	}
	name := C.CString(l.Name)
	defer C.free(unsafe.Pointer(name))
	return take(api, C.weft_give_value(api, options, name, C.ONNXTensorElementDataType(l.DType),
		(*C.int64_t)(unsafe.SliceData(l.Shape)), C.size_t(len(l.Shape)), unsafe.Pointer(unsafe.SliceData(b)),
		C.size_t(len(b))))
}

func (e Extent) of(all []byte) ([]byte, error) {
	if e.Size < 0 || e.Offset < 0 || e.Offset > int64(len(all))-e.Size {
		return nil, fmt.Errorf("the model's copy has %d bytes, which end before byte %d", len(all), e.Offset+e.Size)
	}
	return all[e.Offset : e.Offset+e.Size], nil
}

// close gives the file up.
func (s *Source) close() {
	if s.File != nil {
		_ = s.File.Close() // it was only read
	}
}
