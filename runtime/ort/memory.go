package ort

/*
#include <stdlib.h>
#include "capi.h"
*/
import "C"

import "unsafe"

// Memory is the state of a session's arena on its device, in bytes: what Options.DeviceMemory limits.
type Memory struct {
	// InUse is occupied now, Peak the most that ever was, Reserved what the arena holds on to.
	InUse, Peak, Reserved int64
}

// Memory measures what the session holds of its device.
func (s *Session) Memory() (Memory, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.native == nil {
		return Memory{}, ErrClosed
	}
	name, number := "Cpu", 0
	if onCUDA(s.provider) {
		name, number = "Cuda", s.options.DeviceID
	}
	cName := C.CString(name)
	defer C.free(unsafe.Pointer(cName))
	var m C.weft_memory
	if err := take(s.api, C.weft_measure_memory(s.api, s.native.c.session, cName, C.int(number), &m)); err != nil {
		return Memory{}, err
	}
	return Memory{InUse: int64(m.in_use), Peak: int64(m.peak), Reserved: int64(m.reserved)}, nil
}
