package ort

/*
#include "cudart.h"
*/
import "C"

import (
	"errors"
	"log/slog"
	"sync"
	"unsafe"

	"github.com/weftserve/weft/runtime/tensor"
)

// pinner gives batch buffers that are page-locked, so that the device reads and writes them without a copy in between.
type pinner struct {
	cuda   *C.weft_cuda
	device C.int
	log    *slog.Logger

	mu     sync.Mutex
	pinned map[*byte]bool // first bytes of the locked memory
	told   bool           // that locking failed; once is enough
}

var _ tensor.Allocator = (*pinner)(nil)

func newPinner(device int, log *slog.Logger) (*pinner, error) {
	cuda, err := loadCUDA()
	if err != nil {
		return nil, err
	}
	return &pinner{cuda: cuda, device: C.int(device), log: log, pinned: map[*byte]bool{}}, nil
}

// Allocate maps memory and locks it. Where it cannot be locked it is used as it is.
func (p *pinner) Allocate(size int) ([]byte, error) {
	memory, err := tensor.SystemMemory{}.Allocate(size)
	if err == nil {
		p.lock(memory)
	}
	return memory, err
}

// pin locks memory that another has mapped, until unpin.
func (p *pinner) pin(memory []byte) (unpin func()) {
	p.lock(memory)
	return func() { p.unlock(memory) }
}

func (p *pinner) lock(memory []byte) {
	device.opening.enter()
	err := p.check(C.weft_cuda_pin(p.cuda, p.device, unsafe.Pointer(unsafe.SliceData(memory)), C.size_t(len(memory))))
	device.opening.leave()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.pinned[unsafe.SliceData(memory)] = true
		return
	}
	if !p.told {
		p.told = true
		p.log.Warn("batch buffer not page-locked", "event", "buffer_pin_failed", "bytes", len(memory),
			"effect", "copies to the device stay slower", "cause", err)
	}
}

// Free unlocks memory and unmaps it.
func (p *pinner) Free(memory []byte) {
	p.unlock(memory)
	tensor.SystemMemory{}.Free(memory)
}

func (p *pinner) unlock(memory []byte) {
	first := unsafe.SliceData(memory)
	p.mu.Lock()
	was := p.pinned[first]
	delete(p.pinned, first)
	p.mu.Unlock()
	if was {
		device.opening.enter()
		defer device.opening.leave()
		// fails on a lost device, which holds no memory any more
		_ = p.check(C.weft_cuda_unpin(p.cuda, p.device, unsafe.Pointer(first)))
	}
}

// check turns a CUDA error into a Go error, and notes if it says that the device is lost.
func (p *pinner) check(code C.int) error {
	if code == 0 {
		return nil
	}
	err := errors.New(cudaText(p.cuda, code))
	noteLost(int(p.device), err)
	return err
}
