package ort

import (
	"sync"

	"github.com/weftserve/weft/runtime/engine"
)

// lost are the CUDA devices that an error has reported as lost, by ONNX Runtime's number, each with that error. A
// process never gets back what it holds on such a device, so they stay here. One session's error counts for all: a
// fault in one kernel ends them.
var lost = struct {
	mu     sync.Mutex
	causes map[int]error
}{causes: map[int]error{}}

// LoseDevice notes that a CUDA device is lost, by ONNX Runtime's number. Sessions that run there say so themselves;
// this is for a caller that learns of it in another way.
func LoseDevice(device int, cause error) {
	lost.mu.Lock()
	defer lost.mu.Unlock()
	if lost.causes[device] == nil {
		lost.causes[device] = cause
	}
}

// noteLost looks whether an error that came from a device says that it is lost. Errors of the Go binding are text, so
// the text decides.
func noteLost(device int, err error) {
	if err != nil && kindOfText(err) == engine.DeviceLost {
		LoseDevice(device, err)
	}
}

// lostBy returns the error that said that a device is lost; nil: none has.
func lostBy(device int) error {
	lost.mu.Lock()
	defer lost.mu.Unlock()
	return lost.causes[device]
}
