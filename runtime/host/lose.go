package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/sharedsched"
)

// LoseDevice takes a device out of use until the server is started anew: what a process holds on a device that failed does not come
// back. Sessions that fail for that reason say so themselves; this is for who learns of it in another way. Requests that wait on it
// are run on other replicas, and versions that have none are loaded elsewhere if they can be.
func (h *Host) LoseDevice(name string, cause error) { h.lose(h.fleet.get(name), cause, nil) }

// lose takes a device out of use, once. It returns at once. by is what ran on it when it failed, or was being opened there, or nil.
func (h *Host) lose(d *device, cause error, by *version) {
	if !d.lost.CompareAndSwap(nil, &cause) {
		return
	}
	close(d.failed)
	h.log.Error("a device failed and is not used any more until the server is started anew", "device", d.name, "cause", cause)
	h.mu.Lock()
	defer h.mu.Unlock()
	if by != nil {
		h.models[by.model].blame(by, d)
	}
	if !h.closed { // else all is being unloaded anyway
		h.loads.Go(func() { h.evacuate(d) })
	}
}

// lostPatience is how long what was begun on a device may take once it is lost. Its driver may never return.
const lostPatience = 5 * time.Second

// errLeftBehind says that what was begun on a device did not end in time after that was lost.
var errLeftBehind = errors.New("is left behind")

// during has f done, in a goroutine of its own, and returns its error. On a device that is lost, or gets lost meanwhile, f has
// lostPatience left: then its context ends, the error is errLeftBehind, wrapped, and late, which may be nil, hears how f ended if it
// ever does.
func (d *device) during(ctx context.Context, f func(context.Context) error, late func(error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended, left := make(chan error), make(chan struct{})
	go func() {
		err := f(ctx)
		select {
		case ended <- err:
		case <-left:
			if late != nil {
				late(err)
			}
		}
	}()
	select {
	case err := <-ended:
		return err
	case <-d.failed:
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(lostPatience):
		close(left)
		return fmt.Errorf("it does not end on the lost device %s and %w", d.name, errLeftBehind)
	}
}

// maxBroken is how many devices may be lost while a version is opened there or runs before it gets no other: a kernel that dies on some
// input, or a file that does when it is opened, would take one device after the other along. Losses that are blameTime apart are chance.
const (
	maxBroken = 2
	blameTime = time.Hour
)

// blame notes that a device was lost while a version was opened there, or ran. The caller holds Host.mu. m may be nil.
func (m *model) blame(by *version, d *device) {
	if m == nil || m.versions[by.number] == nil {
		return
	}
	e := m.versions[by.number]
	if of := by.from.version.Fingerprint; e.fingerprint != of || time.Since(e.brokeAt) > blameTime {
		e.broke, e.fingerprint = nil, of
	}
	e.broke, e.brokeAt = append(e.broke, d.name), time.Now()
}

// blamed returns an error for what has broken too many devices.
func (h *Host) blamed(c candidate) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.models[c.model].versions[c.version.Number]
	if e.fingerprint != c.version.Fingerprint || len(e.broke) < maxBroken {
		return nil
	}
	return fmt.Errorf("%s: the devices %s failed while it was opened or ran there, and it is not tried on another, lest that fails too: "+
		"replace its files, or, if it is not the cause, start the server anew", c.path(), strings.Join(e.broke, " and "))
}

// evacuate takes the replicas on a lost device out, and has them loaded elsewhere. The budget of memory does not wait for their sessions,
// which may take long to close or never do: what is on a lost device is of no use to anybody.
func (h *Host) evacuate(d *device) {
	var out []*replica
	var affected []string // models
	h.updateSeveral(func() ([]string, bool) {
		for name, m := range h.models {
			gone := false
			for number, e := range m.versions {
				if e.resident == nil {
					continue
				}
				r := e.resident.on(d)
				if r == nil {
					continue
				}
				out = append(out, r)
				affected = append(affected, name)
				if e.leave(r); e.resident == nil {
					e.public, gone = m.bereft(number, d), true
				}
			}
			if gone {
				m.hasten() // what failed to take a place may be all there is now
			}
		}
		for r := range h.retiring {
			if r.device == d {
				out = append(out, r)
			}
		}
		return affected, true // also where nothing was there: that it is lost is news
	})
	for _, r := range out {
		h.memory.give(r.memory)
		h.sched.Expel(r.id)
	}
	h.retireLater(out...)
	for _, name := range affected {
		h.settleLater(name)
	}
	h.retryForMemory()
}

// leaveLost evacuates the devices of a version that was published a moment ago, should one have been lost since it was loaded.
func (h *Host) leaveLost(v *version) {
	for _, r := range v.list() {
		if r.device.lost.Load() != nil {
			h.evacuate(r.device)
		}
	}
}

// leave takes a replica out of what is published. Without any left nothing is resident, unless somebody unloads the version anyway.
// The caller holds Host.mu.
func (e *entry) leave(r *replica) {
	v := e.resident
	v.change(slices.DeleteFunc(slices.Clone(v.list()), func(other *replica) bool { return other == r }))
	if len(v.list()) == 0 && !e.claimed {
		v.ready.Store(false)
		e.resident = nil
		return
	}
	next := *e.public
	v.publish(&next)
	e.public = &next
}

// bereft returns what is published of a version whose last replica was on a lost device. The caller holds Host.mu.
func (m *model) bereft(number int64, d *device) *catalog.Version {
	if c := m.want(number); c != nil {
		return c.announced() // it is loaded elsewhere next, or fails to be
	}
	public := *m.versions[number].public
	public.State, public.Replicas = catalog.Failed, nil
	fault := catalog.Hide(fmt.Errorf("the device %s is lost (%w), and the version is not loaded elsewhere because it is not to be resident by versions.policy", d.name, *d.lost.Load()))
	public.Cause, public.Fault = fault.Text, fault
	return &public
}

// awaitReplica returns nil when there is a replica for a request that was taken out of the queue of a lost device, or why there will
// be none. It waits while the version is loaded elsewhere, until the limit if there is one.
func (h *Host) awaitReplica(ctx context.Context, call *catalog.Call, limit time.Time) error {
	if !limit.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, limit, sharedsched.ErrExpired)
		defer cancel()
	}
	for {
		h.mu.Lock()
		changed := h.changesLocked(call.Version.Model)
		h.mu.Unlock()
		v := h.resident(call.Version)
		if v != nil && v.pick(call.Rows) != nil {
			return nil
		}
		state := catalog.Failed
		if m := h.Snapshot().Model(call.Version.Model); m != nil && m.Version(call.Version.Number) != nil {
			state = m.Version(call.Version.Number).State
		}
		if v == nil && state != catalog.Loading {
			return fmt.Errorf("model %q version %d: %w", call.Version.Model, call.Version.Number, catalog.ErrNotReady)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
