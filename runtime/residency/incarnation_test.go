package residency_test

import (
	"errors"
	"testing"

	"github.com/weftserve/weft/runtime/fleet/placement"
	"github.com/weftserve/weft/runtime/residency"
)

// TestNothingFurtherForWhatDrains: the shell asks how far watched versions could grow, and a draining one may have lost
// all its devices.
func TestNothingFurtherForWhatDrains(t *testing.T) {
	s := newScript()
	err := s.play("list m 1 replicas=2\n> load m/1\nloaded m/1 on gpu0\n> grow m/1\ngrown m/1 to gpu1\nunload m/1\n> " +
		"drain m/1\n" +
		"lost gpu0\n> retire gpu0\n> abandon gpu0\nlost gpu1\n> retire gpu1\n> abandon gpu1\n")
	if err != nil {
		t.Fatal(err)
	}
	r := s.machine.Model("m").Versions[1].Resident
	r.Further() // Host.scale calls it, with Host.mu held
}

// TestBackBeforeTheLossIsTold: Host.lose reports the loss in the background, Host.RestoreDevice the return at once.
func TestBackBeforeTheLossIsTold(t *testing.T) {
	s := newScript()
	if err := s.play("list m 1\n> load m/1\nloaded m/1 waiting on cpu\n"); err != nil {
		t.Fatal(err)
	}
	gpu0 := placement.DeviceID{Name: "gpu0", Incarnation: 1}
	s.machine.Step(s.now, residency.DeviceBack{Device: gpu0})
	s.machine.Step(s.now, residency.DeviceLost{Device: placement.DeviceID{Name: "gpu0"}, Cause: errors.New("lost")})
	for _, o := range s.machine.Outlooks(s.now) {
		for _, site := range o.Above {
			if site.Device == "gpu0" {
				return
			}
		}
	}
	t.Error("the device that is back is taken for lost for ever")
}

// TestLoadedOnAnIncarnationThatIsGone: a version loaded on a device that was lost and came back meanwhile is on the
// incarnation that is gone.
func TestLoadedOnAnIncarnationThatIsGone(t *testing.T) {
	s := newScript()
	if err := s.play("list m 1\n> load m/1\nlost gpu0\nback gpu0\n"); err != nil {
		t.Fatal(err)
	}
	load := s.running[0].(residency.Load)
	old := residency.Replica{ID: 77, Device: placement.DeviceID{Name: "gpu0"}}
	s.machine.Step(s.now, residency.Loaded{Load: load, Replicas: []residency.Replica{old}, Sites: sites})
	if v := s.machine.Model("m").Versions[1]; s.machine.Model("m").Ready(1) {
		t.Errorf("it is ready on %v, which is lost for ever", v.Resident.Replicas)
	}
}
