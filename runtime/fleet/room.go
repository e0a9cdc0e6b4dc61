package fleet

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/fleet/placement"
)

// Room says what a version needs, which device it prefers, and why some devices are out of the question: it is there
// already, or did not fit when it was tried.
type Room struct {
	Need    int64 // bytes
	Prefer  string
	Against map[string]error
	// Wary are devices that were full when that was known last: where nothing is known now, they count as full still.
	Wary []string
}

// ErrResident says that a version is on a device already.
var ErrResident = errors.New("the version is on that device already")

// errUnknownRoom says why a device in Room.Wary counts as full.
var errUnknownRoom = errors.New("it had no room when its free memory was known last, which it is not now")

// FreeMemory asks each of the devices how many bytes of its memory are free. It asks all at once and takes no lock,
// since a driver may take its time. Devices whose free memory is not known are left out.
func (f *Fleet) FreeMemory(sites []placement.Site) map[string]int64 {
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

// States returns the known state of the sites that may take a version, and why the others may not. free is FreeMemory's
// answer for them.
func (f *Fleet) States(sites []placement.Site, r Room,
	free map[string]int64,
) (open []placement.Device, full []catalog.FullDevice) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range sites {
		d := f.getLocked(s.Device)
		bytes, known := free[s.Device]
		// Versions that are being loaded do not show in the driver's answer yet.
		bytes = max(0, bytes-d.loading)
		if err := r.Against[s.Device]; err != nil {
			full = append(full, catalog.FullDevice{
				Name: s.Device, Cause: err, Lost: d.Lost() != nil, Resident: errors.Is(err, ErrResident),
			})
		} else if cause := d.Lost(); cause != nil {
			full = append(full, catalog.FullDevice{
				Name: s.Device, Cause: fmt.Errorf("it is lost: %w", cause),
				Lost: true,
			})
		} else if known && bytes < r.Need {
			full = append(full, catalog.FullDevice{Name: s.Device, Free: bytes})
		} else if !known && slices.Contains(r.Wary, s.Device) {
			full = append(full, catalog.FullDevice{Name: s.Device, Cause: errUnknownRoom})
		} else {
			open = append(open, placement.Device{Name: s.Device, Rank: s.Rank, Load: d.load, Versions: d.versions})
		}
	}
	return open, full
}

// Reserve chooses the best of the sites, and counts the version's need there until Settle. The device is nil if none
// has room. In any case it returns the sites that cannot be had, and why.
func (f *Fleet) Reserve(sites []placement.Site, r Room) (*Device, []catalog.FullDevice) {
	f.placing.Lock()
	defer f.placing.Unlock()
	open, full := f.States(sites, r, f.FreeMemory(sites))
	if len(open) == 0 {
		return nil, full
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.getLocked(placement.Best(open, r.Prefer))
	d.versions++
	d.loading += r.Need
	return d, full
}

// Settle ends a reservation, whether the version was opened or not. Count counts an open one.
func (f *Fleet) Settle(d *Device, need int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d.versions--
	d.loading -= need
}
