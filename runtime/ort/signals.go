package ort

/*
#include "signals.h"
*/
import "C"

import "sync"

// signals lets one at a time replace signal handlers.
var signals sync.Mutex

// keepSignals runs f, which opens something, and puts back the signal handlers that f replaced. The CUDA provider and
// the libraries it loads install handlers of their own, without SA_ONSTACK; Go then dies on the next signal, such as
// the interrupt that should have started an orderly shutdown (https://github.com/yalue/onnxruntime_go/issues/140). A
// handler that another goroutine registers for the first time while f runs is lost.
func keepSignals[T any](f func() (T, error)) (T, error) {
	signals.Lock()
	defer signals.Unlock()
	saved := new(C.weft_signals)
	C.weft_signals_save(saved)
	defer C.weft_signals_restore(saved)
	return f()
}
