package host_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
)

// TestAFileThatBreaksDevices: one that ends the device on which it is opened, or tried out, gets two of them and no
// more, until it is another.
func TestAFileThatBreaksDevices(t *testing.T) {
	for what, fatal := range map[string]func(*machines) func(string) (engine.Opened, error){
		"opened": func(*machines) func(string) (engine.Opened, error) {
			return func(string) (engine.Opened, error) { return engine.Opened{}, errLost }
		},
		"tried out": func(m *machines) func(string) (engine.Opened, error) {
			return m.engine(func([]float32) error { return errLost })
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, m := newFleet(t, time.Millisecond, "a", "b", "c", "d")
				w.add("other", 1, m.open, tiny)
				w.load("other")
				w.on("other", 1, "a")
				w.add("m", 1, fatal(m), tiny)
				v := w.load("m")
				if !strings.Contains(v.Cause,
					"the devices b and c failed while it was opened or ran there, and it is not tried on another") {
					t.Errorf("%v: %s", v.State, v.Cause)
				}
				time.Sleep(10 * time.Minute) // in which it is tried again
				if lost := w.Snapshot().Lost; len(lost) != 2 || w.version("m", 1).State != catalog.Failed {
					t.Errorf("%v, with these devices lost: %v", w.version("m", 1).State, lost)
				}
				w.put("m", 1, m.open, "second")
				w.load("m")
				w.on("m", 1, "d")
				w.on("other", 1, "a")
			})
		})
	}
}
