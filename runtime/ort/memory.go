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

	"github.com/weftserve/weft/runtime/tensor"
)

// memory is the part of its device's memory that a session held at the latest look, in bytes.
type memory struct {
	held   atomic.Int64
	peak   atomic.Int64
	at     atomic.Int64 // when; nanoseconds since 1970
	graphs atomic.Int64 // of held, the part that the inputs and outputs of CUDA graphs take now
	most   atomic.Int64 // bytes of the inputs of the largest run
}

// measureEvery is how often runs look at the session's memory.
var measureEvery = time.Second

// follow looks at the session's memory after a run of so many bytes of inputs, now and then, and always when none was
// as large: only runs change it. The arena has a lock, which it keeps while it asks the device for more memory. So
// Stats does not look: on a device that hangs it would, too. The caller holds mu.
func (s *Session) follow(b *tensor.Batch) {
	size := int64(0)
	for i := range b.Inputs {
		size += int64(len(b.Inputs[i].Data))
	}
	most, last, now := s.memory.most.Load(), s.memory.at.Load(), time.Now().UnixNano()
	larger := size > most && s.memory.most.CompareAndSwap(most, size)
	if larger {
		s.memory.at.Store(now)
	}
	if larger || now-last >= int64(measureEvery) && s.memory.at.CompareAndSwap(last, now) {
		_, _, _ = s.measure() // the next run looks again
	}
}

// measure looks at the session's part of its device's memory, in bytes: the most of its arena that was ever occupied at
// once, which Options.DeviceMemory limits, and all that it holds on to: the arena, and the inputs and outputs of CUDA
// graphs. The caller holds mu, and knows that there is a native session.
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
	s.memory.peak.Store(int64(m.peak))
	return int64(m.peak), reserved, nil
}
