package ort

import (
	"sync"

	"github.com/weftserve/weft/runtime/engine"
)

// lost are the CUDA devices of which an error has told that they are lost, by ONNX Runtime's number, each with that
// error. What a process holds on such a device does not come back, so they stay here. One session's error counts for
// all: a fault in one kernel ends them.
var lost = struct {
	mu     sync.Mutex
	causes map[int]error
}{causes: map[int]error{}}

// LoseDevice notes that a CUDA device is lost, by ONNX Runtime's number. What runs there says so itself; this is for
// who learns of it in another way. A capture or an opening that is under way there holds up nobody any more.
func LoseDevice(device int, cause error) {
	defer endSeizure(device) // after it was noted, which seize relies on, as does keepSignals
	defer endKeeping(device)
	lost.mu.Lock()
	defer lost.mu.Unlock()
	if lost.causes[device] == nil {
		lost.causes[device] = cause
	}
}

// noteLost looks whether an error that came of a device tells that it is lost. Errors of the Go binding are text, so
// the text decides.
func noteLost(device int, err error) {
	if err != nil && kindOfText(err) == engine.DeviceLost {
		LoseDevice(device, err)
	}
}

// lostBy returns what told that a device is lost; nil: nothing has.
func lostBy(device int) error {
	lost.mu.Lock()
	defer lost.mu.Unlock()
	return lost.causes[device]
}
