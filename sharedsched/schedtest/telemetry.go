// Package schedtest has stand-ins for the surroundings of a scheduler, for tests.
package schedtest

import (
	"sync"

	"github.com/weftserve/weft/sharedsched/cost"
)

// Telemetry is a shell.Telemetry that returns the samples it was given. The zero value knows of no device. Its methods
// are safe for concurrent use.
type Telemetry struct {
	mu      sync.Mutex
	devices map[string]said // guarded by mu
}

type said struct {
	sample cost.Sample
	number uint64
}

// Set makes s the device's latest sample.
func (t *Telemetry) Set(device string, s cost.Sample) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.devices == nil {
		t.devices = map[string]said{}
	}
	t.devices[device] = said{s, t.devices[device].number + 1}
}

// Sample implements shell.Telemetry.
func (t *Telemetry) Sample(device string) (cost.Sample, uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.devices[device]
	return d.sample, d.number
}
