package ort

/*
#include "signals.h"
*/
import "C"

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// signals lets one at a time replace signal handlers.
var signals struct {
	sync.Mutex
	keeper atomic.Pointer[keeper] // its holder; nil: nobody
}

// keeper puts back signal handlers when a call on a CUDA device has ended.
type keeper struct {
	on  int    // the device, by ONNX Runtime's number; -1: none
	end func() // puts them back and lets the next go on, once
}

// keepSignals runs f, which opens something on a CUDA device (-1: on none), and puts back the signal handlers that f
// replaced. The CUDA provider and the libraries it loads install handlers of their own, without SA_ONSTACK; Go then
// dies on the next signal, such as the interrupt that should have started an orderly shutdown
// (https://github.com/yalue/onnxruntime_go/issues/140). A handler that another goroutine registers for the first time
// while f runs is lost. Where f hangs because its device is lost, others go on; on a device that is lost already, f is
// not run, and the error says so.
func keepSignals[T any](on int, f func() (T, error)) (T, error) {
	signals.Lock()
	saved := new(C.weft_signals)
	C.weft_signals_save(saved)
	k := &keeper{on, sync.OnceFunc(func() {
		C.weft_signals_restore(saved)
		signals.keeper.Store(nil)
		signals.Unlock()
	})}
	defer func() {
		C.weft_signals_restore(saved) // also where others went on meanwhile
		k.end()
	}()
	signals.keeper.Store(k)
	if on >= 0 { // it may have been lost before there was a keeper to end
		if cause := lostBy(on); cause != nil {
			var none T
			return none, fmt.Errorf("the device is lost: %w", cause)
		}
	}
	return f()
}

// endKeeping lets others go on whom a call on a device that is lost keeps waiting: it may hang there for ever.
func endKeeping(lost int) {
	if k := signals.keeper.Load(); k != nil && k.on == lost {
		k.end()
	}
}
