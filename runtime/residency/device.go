package residency

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/fleet/placement"
)

// blame is the suspicion against a version: devices were lost while it was opened there, or ran.
type blame struct {
	devices     []string
	at          time.Time // of the latest loss
	fingerprint string    // of the files that were loaded
}

// maxBlamed is how many devices may be lost under a version before it gets no other: a kernel that dies on some input,
// or a file that does when it is opened, would take one device after the other along. Losses that are blameTime apart
// are chance.
const (
	maxBlamed = 2
	blameTime = time.Hour
)

// deviceLost takes the replicas on a device out of their versions. Versions that have no other are loaded elsewhere.
func (m *Machine) deviceLost(e DeviceLost) {
	if m.lost[e.Device] != nil {
		return
	}
	m.lost[e.Device] = e.Cause
	m.blame(e)
	for _, name := range slices.Sorted(maps.Keys(m.models)) {
		model := m.models[name]
		bereft := false
		for _, n := range slices.Sorted(maps.Keys(model.Versions)) {
			bereft = m.leave(model, model.Versions[n], e.Device) || bereft
		}
		if bereft {
			model.hasten() // a replica that failed to take another's place may be all there is now
		}
	}
	for _, id := range m.Retiring() {
		if m.retiring[id] == e.Device {
			m.emit(Abandon{id})
		}
	}
}

// leave takes a version's replica on a lost device away. It reports whether nothing of the version serves any more.
func (m *Machine) leave(model *Model, v *Version, d placement.DeviceID) (bereft bool) {
	r := v.Resident
	if r == nil {
		return false
	}
	i := slices.IndexFunc(r.Replicas, func(x Replica) bool { return x.Device == d })
	if i < 0 {
		if from, _ := m.better(r); r.wait.why != "" && from == nil { // it waited for this device only
			r.wait = upgrade{}
			m.touch(model, v)
		}
		return false
	}
	gone := r.Replicas[i]
	r.Replicas = slices.Delete(slices.Clone(r.Replicas), i, i+1)
	m.touch(model, v)
	m.retire(gone)
	if len(r.Replicas) > 0 || v.State == Draining || m.closing {
		return false
	}
	v.Resident = nil
	if c := model.Want(v.Number); c != nil {
		v.State, v.Of, v.Cause = Loading, *c, nil // it is loaded elsewhere next, or fails to be
		return true
	}
	v.State, v.Of = Failed, r.Of
	v.Cause = catalog.Hide(fmt.Errorf(
		"the device %s is lost (%w), and the version is not loaded elsewhere because versions.policy "+
			"does not select it", d.Name, m.lost[d]))
	return true
}

// deviceBack lets versions go to a device that came back: the versions that failed, and the ones on a worse device.
func (m *Machine) deviceBack(e DeviceBack) {
	m.back[e.Device.Name] = e.Device.Incarnation
	m.log(Log{
		slog.LevelInfo, "device back",
		[]any{"event", "device_back", "device", e.Device.Name, "incarnation", e.Device.Incarnation},
	})
	for name, model := range m.models {
		model.hasten()
		for _, v := range model.Versions {
			if r := v.Resident; r != nil && r.wait.why == "" {
				r.wait = m.waitAgain(r, upgrade{})
				m.touch(model, v)
			}
		}
		m.visit[name] = true
	}
}

// blame notes that a device was lost while a version was opened there, or ran.
func (m *Machine) blame(e DeviceLost) {
	if e.By == nil || m.models[e.By.Model] == nil || m.models[e.By.Model].Versions[e.By.Version.Number] == nil {
		return
	}
	b := &m.models[e.By.Model].Versions[e.By.Version.Number].blamed
	if of := e.By.Version.Fingerprint; b.fingerprint != of || m.now.Sub(b.at) > blameTime {
		*b = blame{fingerprint: of}
	}
	b.devices, b.at = append(b.devices, e.Device.Name), m.now
}

// Blamed returns an error for a version under which too many devices were lost.
func (m *Machine) Blamed(c *Candidate) error {
	model := m.models[c.Model]
	if model == nil || model.Versions[c.Version.Number] == nil {
		return nil
	}
	b := &model.Versions[c.Version.Number].blamed
	if b.fingerprint != c.Version.Fingerprint || len(b.devices) < maxBlamed {
		return nil
	}
	return fmt.Errorf("%s: the devices %s failed while it was opened or ran there, and it is not tried on another, "+
		"because that device could fail, too: "+
		"replace its files, or, if it is not the cause, start the server anew", c.Path(),
		strings.Join(b.devices, " and "))
}

// isLost reports whether the device of a name is lost and did not come back.
func (m *Machine) isLost(name string) bool {
	return m.lost[placement.DeviceID{Name: name, Incarnation: m.back[name]}] != nil
}
