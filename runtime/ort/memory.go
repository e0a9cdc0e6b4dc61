package ort

/*
#include <stdlib.h>
#include "capi.h"
*/
import "C"

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// memory is what a session held of its device's memory when that was looked at last, in bytes.
type memory struct {
	held   atomic.Int64
	at     atomic.Int64 // when; nanoseconds since 1970
	graphs atomic.Int64 // of held, what the inputs and outputs of CUDA graphs take now
}

// DeviceMemory measures what the session has of its device's memory, in bytes: the most that was ever occupied at once of its arena, which
// is what Options.DeviceMemory limits, and what it holds on to, arena and the inputs and outputs of CUDA graphs.
func (s *Session) DeviceMemory() (peak, reserved int64, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.native == nil {
		return 0, 0, ErrClosed
	}
	return s.measure()
}

// HeldMemory returns what the session held on to when that was looked at last, in bytes. It takes no lock.
func (s *Session) HeldMemory() int64 { return s.memory.held.Load() }

// measureEvery is how often runs look at what the session holds.
var measureEvery = time.Second

// follow looks at what the session holds, now and then, after a run: only runs change it. The arena has a lock, which it keeps while it
// asks the device for more memory. So it is not for who only wants to know to look: on a device that hangs they would, too. The caller
// holds mu.
func (s *Session) follow() {
	last, now := s.memory.at.Load(), time.Now().UnixNano()
	if now-last >= int64(measureEvery) && s.memory.at.CompareAndSwap(last, now) {
		_, _, _ = s.measure() // the next run looks again
	}
}

// measure is DeviceMemory for who holds mu and knows that there is a native session.
func (s *Session) measure() (peak, reserved int64, err error) {
	name, number := "Cpu", 0
	if onCUDA(s.provider) {
		name, number = "Cuda", s.options.DeviceID
	}
	cName := C.CString(name)
	defer C.free(unsafe.Pointer(cName))
	var m C.weft_memory
	if err := s.take(C.weft_measure_memory(s.api, s.native.c.session, cName, C.int(number), &m)); err != nil {
		return 0, 0, err
	}
	reserved = int64(m.reserved) + s.memory.graphs.Load()
	s.memory.held.Store(reserved)
	return int64(m.peak), reserved, nil
}
