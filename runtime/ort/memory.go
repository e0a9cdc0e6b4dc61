package ort

/*
#include <stdlib.h>
#include "capi.h"
*/
import "C"

import "unsafe"

// DeviceMemory measures the session's arena on its device, which is what Options.DeviceMemory limits, in bytes: the most that was
// ever occupied at once, and what the arena holds on to.
func (s *Session) DeviceMemory() (peak, reserved int64, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.native == nil {
		return 0, 0, ErrClosed
	}
	name, number := "Cpu", 0
	if onCUDA(s.provider) {
		name, number = "Cuda", s.options.DeviceID
	}
	cName := C.CString(name)
	defer C.free(unsafe.Pointer(cName))
	var m C.weft_memory
	if err := take(s.api, C.weft_measure_memory(s.api, s.native.c.session, cName, C.int(number), &m)); err != nil {
		return 0, 0, err
	}
	return int64(m.peak), int64(m.reserved), nil
}
