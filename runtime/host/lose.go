package host

import (
	"github.com/weftserve/weft/runtime/fleet"
	"github.com/weftserve/weft/runtime/residency"
	"github.com/weftserve/weft/runtime/serving"
)

// LoseDevice takes a device out of use until Config.Revive says that it works again, else until the server is started
// again: a process never gets back what it holds on a device that failed. Sessions that fail for that reason say so;
// this is for a caller that learns of it in another way. Requests that wait on it are run on other replicas, and
// versions that have none are loaded elsewhere if they can be.
func (h *Host) LoseDevice(name string, cause error) { h.lose(h.fleet.Get(name), cause, nil) }

// lose takes a device out of use, once, however many learn of the loss at the same time. It returns at once, because it
// is called from batch threads. by is the version that ran on the device when it failed, or was being opened there, or
// nil: a version that breaks several devices is blamed (Host.blamed).
func (h *Host) lose(d *fleet.Device, cause error, by *serving.Version) {
	if !d.Lose(cause) {
		return
	}
	h.log.Error("device lost", "event", "device_lost", "device", d.Name, "cause", cause,
		"effect", "it is not used until it works again, or the server is restarted")
	e := residency.DeviceLost{Device: d.ID(), Cause: cause}
	if by != nil {
		of := by.From
		e.By = &of
	}
	// residency moves the versions. Only then is the loss known (Device.Known), so that nobody places a version again
	// before it.
	h.inBackground(func() { // not once all is being unloaded anyway
		h.step(e)
		d.Known()
	})
	// Revive may take for ever. It ends with h.stop, and Close waits for it.
	if h.cfg.Revive != nil {
		h.inBackground(func() {
			if h.cfg.Revive(h.stop, d.Name) == nil {
				h.RestoreDevice(d.Name)
			}
		})
	}
}

// RestoreDevice takes a device into use again that was lost. Versions that are loaded there from now on are in another
// process, so that the earlier incarnation of the device does not matter. It does nothing for a device that works.
func (h *Host) RestoreDevice(name string) {
	lost := h.fleet.Get(name)
	if lost.Lost() == nil {
		return
	}
	// Otherwise residency could hear that the device is back before it hears that it was lost.
	lost.AwaitKnown(h.stop)
	if err := h.sched.RenewDevice(name); err != nil {
		h.log.Error("device cannot be used again", "event", "device_renewal_failed", "device", name, "cause", err)
		return
	}
	if d := h.fleet.Restore(name); d != nil {
		h.step(residency.DeviceBack{Device: d.ID()})
	}
}
