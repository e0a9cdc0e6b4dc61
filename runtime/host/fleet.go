package host

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/host/placement"
	"github.com/weftserve/weft/runtime/residency"
)

// fleet is the devices that models are on, or may be. Its lock mu is a leaf.
type fleet struct {
	lanes map[string]int
	free  func(device string) (bytes int64, known bool) // may be nil

	placing sync.Mutex // held while a device is chosen, so that the next choice sees this one

	mu  sync.Mutex
	all []*device // guarded by mu; in the order in which they came to be known
}

// device is one of them.
type device struct {
	name  string
	lanes int

	// pending is the device time that unanswered requests on it are expected to take, and asked what was asked for since the latest
	// tick: served or refused. Both are nanoseconds. However many lanes a device has, it gives a second of its time in a second: batches
	// that run side by side have parts of it.
	pending, asked atomic.Int64
	lost           atomic.Pointer[error] // nil while it works
	failed         chan struct{}         // closed once lost is set
	told           chan struct{}         // closed once residency knows

	load     float64 // guarded by fleet.mu; see placement.Device
	versions int     // guarded by fleet.mu; on it or being loaded
	loading  int64   // guarded by fleet.mu; bytes, by estimate, of those being loaded
}

// get returns the named device.
func (f *fleet) get(name string) *device {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.getLocked(name)
}

func (f *fleet) getLocked(name string) *device {
	for _, d := range f.all {
		if d.name == name {
			return d
		}
	}
	d := &device{name: name, lanes: max(f.lanes[name], 1), failed: make(chan struct{}), told: make(chan struct{})}
	f.all = append(f.all, d)
	return d
}

// lost returns the devices that failed.
func (f *fleet) lost() (all []catalog.LostDevice) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.all {
		if cause := d.lost.Load(); cause != nil {
			all = append(all, catalog.LostDevice{Name: d.name, Cause: catalog.Public(*cause)})
		}
	}
	return all
}

// loadMemory is over what time the load of a device is averaged, with less weight on what is longer ago.
const loadMemory = 8 * time.Second

// tick takes in what was asked of the devices in the time since the latest tick.
func (f *fleet) tick(passed time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	weight := min(1, float64(passed)/float64(loadMemory))
	for _, d := range f.all {
		share := float64(d.asked.Swap(0)) / float64(passed)
		d.load += weight * (share - d.load)
	}
}

// forget has nothing that was asked until now count: a tick would take it for the work of one.
func (f *fleet) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.all {
		d.asked.Store(0)
	}
}

// freeMemory asks each of the devices how many bytes of its memory are free, side by side, since a driver may take its time. Devices of
// which that is not known are left out.
func (f *fleet) freeMemory(sites []Site) map[string]int64 {
	free, asked := map[string]int64{}, map[string]bool{}
	if f.free == nil {
		return free
	}
	var (
		mu  sync.Mutex // guards free
		all sync.WaitGroup
	)
	for _, s := range sites {
		if asked[s.Device] {
			continue
		}
		asked[s.Device] = true
		all.Go(func() {
			if bytes, known := f.free(s.Device); known {
				mu.Lock()
				defer mu.Unlock()
				free[s.Device] = bytes
			}
		})
	}
	all.Wait()
	return free
}

// room is what a version needs, and what speaks against some devices: it is there already, or was tried in vain.
type room struct {
	need    int64 // bytes
	prefer  string
	against map[string]error
	// wary are devices that were full when that was known last: where nothing is known now, they count as full still.
	wary []string
}

// errUnknownRoom says why a device counts as full still.
var errUnknownRoom = errors.New("it had no room when its free memory was known last, which it is not now")

// states returns what is known of the sites that may take a version, and why the others may not. free is what freeMemory says of them.
func (f *fleet) states(sites []Site, r room, free map[string]int64) (open []placement.Device, full []catalog.FullDevice) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range sites {
		d := f.getLocked(s.Device)
		bytes, known := free[s.Device]
		bytes = max(0, bytes-d.loading)
		if err := r.against[s.Device]; err != nil {
			full = append(full, catalog.FullDevice{Name: s.Device, Cause: err, Lost: d.lost.Load() != nil, Resident: errors.Is(err, errSameDevice)})
		} else if cause := d.lost.Load(); cause != nil {
			full = append(full, catalog.FullDevice{Name: s.Device, Cause: fmt.Errorf("it is lost: %w", *cause), Lost: true})
		} else if known && bytes < r.need {
			full = append(full, catalog.FullDevice{Name: s.Device, Free: bytes})
		} else if !known && slices.Contains(r.wary, s.Device) {
			full = append(full, catalog.FullDevice{Name: s.Device, Cause: errUnknownRoom})
		} else {
			open = append(open, placement.Device{Name: s.Device, Rank: s.Rank, Load: d.load, Versions: d.versions})
		}
	}
	return open, full
}

// reserve chooses the best of the sites and has what is to be loaded there count until settle. It returns nil if there is none, and in
// any case why some of them cannot be had.
func (f *fleet) reserve(sites []Site, r room) (*device, []catalog.FullDevice) {
	f.placing.Lock()
	defer f.placing.Unlock()
	open, full := f.states(sites, r, f.freeMemory(sites))
	if len(open) == 0 {
		return nil, full
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.getLocked(placement.Best(open, r.prefer))
	d.versions++
	d.loading += r.need
	return d, full
}

// settle ends a reservation.
func (f *fleet) settle(d *device, need int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d.versions--
	d.loading -= need
}

// count notes that a session was opened on a device, or closed.
func (f *fleet) count(d *device, by int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d.versions += by
}

// id returns what residency calls the device.
func (d *device) id() residency.Device { return residency.Device{Name: d.name} }

// spare returns the part of its time that the least loaded device has left which could get a further replica of the version: one of
// the rank that its replicas have; and whether there is such a device.
func (f *fleet) spare(v *version, sites []Site) (most float64, further bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range peers(v, sites) {
		if d := f.getLocked(s.Device); d.lost.Load() == nil && v.on(d) == nil {
			most, further = max(most, 1-d.load), true
		}
	}
	return most, further
}

// excess returns the replica that is to be taken away.
func (f *fleet) excess(all []*replica) *replica {
	f.mu.Lock()
	defer f.mu.Unlock()
	loads := make([]float64, len(all))
	for i, r := range all {
		loads[i] = r.device.load
	}
	return all[placement.Excess(loads)]
}
