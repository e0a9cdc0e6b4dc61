package ort

/*
#include "capi.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
)

// Session is a model loaded into ONNX Runtime. It is safe for concurrent use.
type Session struct {
	source      Source
	options     Options // as it runs: the one provider, and without CUDA graphs
	log         *slog.Logger
	signature   *tensor.Signature
	inputDims   int // dimensions of all inputs together
	provider    string
	threadTime  bool // the calling thread does all the work of a run
	notes       []string
	predictions []prediction // per output; nil: its shape is known after the run only
	// unpredictable is set when the model's declared shapes turned out to be wrong, or an output not to be written where
	// it was expected.
	unpredictable atomic.Bool
	frames        sync.Pool // of *frame
	buffers       *pinner   // nil: buffers are not page-locked
	counts        struct{ replayed, eager, failed atomic.Uint64 }
	memory        memory
	// thread runs the session on a CUDA device, where ONNX Runtime must be given one run of a session at a time: it gives
	// memory that kernels of one run still use to another that goes on at the same time
	// (https://github.com/microsoft/onnxruntime/issues/32342). It is always the same, since ONNX Runtime keeps a context,
	// with handles and work space of cuBLAS and cuDNN, for each thread that ever ran the session. nil: runs are on their
	// callers' threads, side by side.
	thread *thread

	closed atomic.Bool
	api    *C.weft_api
	// mu is held for reading by each run and for writing by the goroutine that closes or exchanges the native session:
	// one destroyed under a run is freed memory in use.
	mu      sync.RWMutex
	graphs  *graphs   // nil: none are captured
	missing error     // why there is no native session although nobody closed it
	tried   time.Time // when it was last tried to make one
	// stopping is held by the goroutine that stops the runs of the native session, and by the one that exchanges that
	// session, which also holds mu.
	stopping sync.Mutex
	native   *native // nil once closed, and while it could not be loaded again
	// stoppable are the options of runs that a context may stop. Guarded by stopping.
	stoppable map[*C.OrtRunOptions]struct{}
}

// Open loads the model file at path; tensors that it keeps in files of their own are found next to it. Init must have
// been called. The error says what is wrong with the file, the model, or the providers.
func Open(path string, o Options) (*Session, error) {
	if info, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("cannot read the model file: %w", err)
	} else if info.IsDir() {
		return nil, fmt.Errorf("%s is a directory, not a model file", path)
	}
	return OpenSource(Source{Path: path}, o)
}

// OpenSource is Open for a model that need not be a file with a name.
func OpenSource(src Source, o Options) (*Session, error) {
	api, err := hold()
	if err != nil {
		src.close()
		return nil, err
	}
	s, err := open(api, &src, o)
	if err != nil {
		src.close()
		release()
		return nil, fmt.Errorf("cannot load %s: %w", src.Path, err)
	}
	return s, nil
}

func open(api *C.weft_api, src *Source, o Options) (_ *Session, err error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := loadOperators(o.Operators); err != nil {
		return nil, err
	}
	m, err := withProviders(src, o)
	if err != nil {
		return nil, err
	}
	s, err := fromNative(api, m)
	if err != nil {
		return nil, errors.Join(err, destroy(m.session, m.provider))
	}
	s.source, s.options, s.log, s.notes = *src, o, o.Log, m.notes
	// More threads than the calling one would work unseen by its clock; OpenVINO and CoreML have threads of their own.
	s.threadTime = m.provider == CPU && o.IntraOpThreads <= 1
	s.options.Providers, s.options.CUDAGraphs = []string{m.provider}, false
	if onCUDA(m.provider) || m.graphs {
		s.thread = newThread()
	}
	if o.PinBuffers && onCUDA(m.provider) {
		if s.buffers, err = newPinner(o.DeviceID, o.Log); err != nil {
			s.notes = append(s.notes, fmt.Sprintf("pin_buffers asked for but not possible: %v", err))
		}
	}
	if m.graphs {
		if s.graphs, err = startGraphs(s); err != nil {
			s.notes = append(s.notes, noGraphs(err))
			s.counts.failed.Add(1)
			if err := s.reload(); err != nil {
				s.thread.stop()
				return nil, err
			}
			return s, nil
		}
	} else if o.CUDAGraphs && onCUDA(m.provider) {
		s.counts.failed.Add(1)
	}
	return s, nil
}

// fromNative reads the signature of a session just made.
func fromNative(api *C.weft_api, m made) (*Session, error) {
	session, err := address(m.session)
	if err != nil {
		return nil, err
	}
	sig, err := readSignature(api, session)
	if err != nil {
		return nil, err
	}
	n, err := newNative(api, m.session, m.provider, sig)
	if err != nil {
		return nil, err
	}
	s := &Session{signature: sig, provider: m.provider, api: api, native: n, stoppable: map[*C.OrtRunOptions]struct{}{}}
	for _, in := range sig.Inputs {
		s.inputDims += len(in.Shape)
	}
	for _, out := range sig.Outputs {
		s.predictions = append(s.predictions, predict(sig, out))
	}
	s.frames.New = func() any { return &frame{values: make([]C.weft_value, sig.MostInputs()+len(sig.Outputs))} }
	return s, nil
}

// reload loads the model again as s.options have it. The old session goes first, so that the device need not hold both.
// The caller holds mu, or is alone. After an error no run is possible, and each one gets it until restore has mended
// that.
func (s *Session) reload() error {
	s.stopping.Lock()
	old := s.native
	s.native = nil
	s.stopping.Unlock()
	if err := s.unload(old); err != nil {
		s.log.Warn("model session not unloaded", "event", "session_unload_failed", "path", s.source.Path, "cause", err)
	}
	return s.load()
}

// load makes the native session that is missing.
func (s *Session) load() error {
	if lostBy(s.options.DeviceID) == nil {
		n, err := s.make()
		if err == nil {
			s.stopping.Lock()
			s.native = n
			s.stopping.Unlock()
			return nil
		}
		s.missing = fmt.Errorf("cannot load %s again without CUDA graphs: %w", s.source.Path, err)
	}
	if cause := lostBy(s.options.DeviceID); cause != nil {
		s.missing = &engine.Error{
			Kind: engine.DeviceLost,
			Err:  fmt.Errorf("cannot load %s again without CUDA graphs: %w", s.source.Path, cause),
		}
	}
	s.tried = time.Now()
	return s.missing
}

// reloadPause is how long a session leaves its model alone that it could not load again: the file may come back, or
// memory, but each request of a batch that fails may be tried alone.
var reloadPause = 5 * time.Second

// restore loads the model again if that failed earlier, and not a moment ago. It returns why there is no native
// session.
func (s *Session) restore() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed.Load():
		return engine.ErrClosed
	case s.native != nil:
		return nil
	case time.Since(s.tried) < reloadPause:
		return s.missing
	}
	if err := s.load(); err != nil {
		return err
	}
	s.log.Info("lost model session loaded again", "event", "session_restored", "path", s.source.Path)
	return nil
}

func (s *Session) make() (*native, error) {
	binding, err := create(&s.source, s.options, s.provider)
	if err != nil {
		return nil, err
	}
	n, err := newNative(s.api, binding, s.provider, s.signature)
	if err != nil {
		return nil, errors.Join(err, destroy(binding, s.provider))
	}
	return n, nil
}

// unload closes a native session that is in use no more. ONNX Runtime ends the process when a captured graph cannot be
// destroyed, as on a lost device and while some stream is still capturing, so a session that has one is left as it is
// then.
func (s *Session) unload(n *native) error {
	cause := n.stuck
	if cause == nil {
		cause = lostBy(s.options.DeviceID)
	}
	if cause != nil && n.captures > 0 {
		s.log.Warn("model session with CUDA graphs left in memory", "event", "session_leaked", "path", s.source.Path,
			"cause", cause)
		return nil
	}
	return n.close()
}

// dropGraphs gives up the graphs that have failed, unless that was done before.
func (s *Session) dropGraphs(failed *graphs) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.graphs != failed || s.closed.Load() {
		return nil
	}
	failed.close()
	s.graphs = nil
	return s.reload()
}

// Signature returns the model's inputs and outputs. No dimension is marked as the batch: the model file does not say.
func (s *Session) Signature() *tensor.Signature { return s.signature }

// Provider returns the execution provider, such as CPU or CUDA.
func (s *Session) Provider() string { return s.provider }

// Notes returns the wishes that could not be met, one sentence each.
func (s *Session) Notes() []string { return s.notes }

// Memory gives page-locked memory for the batches that Run gets; nil without Options.PinBuffers.
func (s *Session) Memory() tensor.Allocator {
	if s.buffers == nil {
		return nil
	}
	return s.buffers
}

// Pin page-locks memory for batches that Memory did not give, until unpin is called; nil without Options.PinBuffers.
func (s *Session) Pin() func(memory []byte) (unpin func()) {
	if s.buffers == nil {
		return nil
	}
	return s.buffers.pin
}

// Close unloads the model. Runs in flight are stopped before their next operator and waited for; they fail with an
// error of the kind engine.Terminated. Later runs fail with engine.ErrClosed. Closing again does nothing.
func (s *Session) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.stopping.Lock()
	if s.native != nil {
		C.weft_session_terminate(s.native.c)
	}
	for options := range s.stoppable {
		C.weft_options_terminate(s.api, options)
	}
	s.stopping.Unlock()
	defer release()
	defer s.source.close()
	defer C.weft_heap_trim()
	if s.thread == nil {
		return s.close()
	}
	var err error
	_ = s.thread.do(context.Background(), func() { err = s.close() }) // it was not stopped before
	s.thread.stop()
	return err
}

// close unloads the model on the thread that the session runs on.
func (s *Session) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.graphs != nil {
		s.graphs.close()
		s.graphs = nil
	}
	if s.native == nil {
		return nil
	}
	n := s.native
	s.native = nil
	return s.unload(n)
}

// Stats reports how the session's runs were executed, and their part of its device's memory. It takes no lock. Graph
// failures are the shapes that could not be captured, or whose graph gave other answers than a run without, and one
// more when the session has given up graphs as a whole, also if that was when it was opened. A shape that only waits
// for memory is not counted.
func (s *Session) Stats() engine.Stats {
	return engine.Stats{
		Graphs: engine.Graphs{
			Known: true, Replayed: s.counts.replayed.Load(), Eager: s.counts.eager.Load(),
			Failures: s.counts.failed.Load(),
		},
		Memory: engine.Memory{Known: true, Peak: s.memory.peak.Load(), Held: s.memory.held.Load()},
	}
}
