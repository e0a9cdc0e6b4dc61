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
	"sync"
	"sync/atomic"

	onnxruntime "github.com/yalue/onnxruntime_go"

	"github.com/weftserve/weft/runtime/tensor"
)

// Session is a model loaded into ONNX Runtime. It is safe for concurrent use.
type Session struct {
	signature   *tensor.Signature
	provider    string
	notes       []string
	predictions []prediction // per output; nil: its shape is known after the run only
	// unpredictable is set when the model's declared shapes turned out to be wrong.
	unpredictable atomic.Bool
	frames        sync.Pool // of *frame

	closed atomic.Bool
	// mu is held for reading by each run and for writing by Close: a session destroyed under a run is freed memory in use.
	mu      sync.RWMutex
	api     *C.weft_api
	binding *onnxruntime.DynamicAdvancedSession
	c       *C.weft_session // nil once closed
}

// Open loads the model file at path; tensors that it keeps in files of their own are found beside it. Init must have been
// called. The error says what is wrong with the file, the model, or the providers.
func Open(path string, o Options) (*Session, error) {
	if info, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("cannot read the model file: %w", err)
	} else if info.IsDir() {
		return nil, fmt.Errorf("%s is a directory, not a model file", path)
	}
	api, err := hold()
	if err != nil {
		return nil, err
	}
	s, err := open(api, path, o)
	if err != nil {
		release()
		return nil, fmt.Errorf("cannot load %s: %w", path, err)
	}
	return s, nil
}

func open(api *C.weft_api, path string, o Options) (_ *Session, err error) {
	binding, provider, notes, err := withProviders(path, o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, binding.Destroy())
		}
	}()
	session, err := address(binding)
	if err != nil {
		return nil, err
	}
	sig, err := readSignature(api, session)
	if err != nil {
		return nil, err
	}
	c := C.weft_session_new(api, session, C.size_t(len(sig.Inputs)), C.size_t(len(sig.Outputs)))
	if c == nil {
		return nil, errors.New("out of memory")
	}
	s := &Session{signature: sig, provider: provider, notes: notes, api: api, binding: binding, c: c}
	s.nameValues()
	for _, out := range sig.Outputs {
		s.predictions = append(s.predictions, predict(sig, out))
	}
	s.frames.New = func() any { return &frame{values: make([]C.weft_value, len(sig.Inputs)+len(sig.Outputs))} }
	return s, nil
}

// address returns what the binding keeps to itself; the package comment tells why we need it.
func address(binding *onnxruntime.DynamicAdvancedSession) (*C.OrtSession, error) {
	field := reflect.ValueOf(binding).Elem().FieldByName("s")
	if field.Kind() == reflect.Pointer && field.Elem().Kind() == reflect.Struct {
		field = field.Elem().FieldByName("ortSession")
		if field.Kind() == reflect.Pointer && !field.IsNil() {
			return (*C.OrtSession)(field.UnsafePointer()), nil
		}
	}
	return nil, errors.New("this version of github.com/yalue/onnxruntime_go keeps its session elsewhere; build with the version that go.mod names")
}

// Signature returns what the model takes and returns. No dimension is marked as the batch: the model file does not tell.
func (s *Session) Signature() *tensor.Signature { return s.signature }

// Provider returns what executes the model: CPU or CUDA.
func (s *Session) Provider() string { return s.provider }

// Notes returns why an execution provider that was asked for does not execute the model, one sentence each.
func (s *Session) Notes() []string { return s.notes }

// Close unloads the model. Runs in flight are stopped before their next operator and waited for; they fail with an error
// whose Terminated is true. Later runs fail with ErrClosed. Closing again does nothing.
func (s *Session) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	C.weft_session_terminate(s.c)
	s.mu.Lock()
	defer s.mu.Unlock()
	C.weft_session_free(s.c)
	s.c = nil
	release()
	return s.binding.Destroy()
}
