// Package placement decides which device a model version is to be on, and on how many it is to be: pure functions of
// the known state of the devices.
package placement

import (
	"cmp"
	"math"
	"slices"
)

// Device is one that may run a version, as it is at the moment.
type Device struct {
	Name string
	// Rank is 0 for the devices that the model is wanted on most, such as a GPU, and more for those to be taken only if
	// none of a lower rank can be, such as the processor.
	Rank int
	// Load is how much of its time was asked for lately: 0 is idle, 1 as much as there is, more means that it could not
	// serve all.
	Load float64
	// Versions is how many are on it or being loaded.
	Versions int
}

const (
	// clearly is by how much more loaded than another of its rank a preferred device must be to be passed over. Less
	// would move versions, whose costs must then be measured again, for nothing.
	clearly = 0.25
	// alike is the step to which loads are rounded before they are compared: recent measurements are not exact.
	alike = 0.05
)

// Best returns the name of the best of one or more devices that have room for a version. These count, in this order:
// the lowest rank; being the preferred device, unless it is clearly more loaded than another of its rank; the least
// load; the fewest versions; the place in the list. Nothing is preferred if prefer is empty.
func Best(devices []Device, prefer string) string {
	least := math.Inf(1)
	preferred := slices.IndexFunc(devices, func(d Device) bool { return d.Name == prefer })
	if preferred >= 0 {
		for _, d := range devices {
			if d.Rank == devices[preferred].Rank {
				least = min(least, d.Load)
			}
		}
	}
	first := func(d Device) int {
		if d.Name == prefer && d.Load <= least+clearly {
			return 0
		}
		return 1
	}
	return slices.MinFunc(devices, func(a, b Device) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(first(a), first(b)),
			cmp.Compare(math.Round(a.Load/alike), math.Round(b.Load/alike)), cmp.Compare(a.Versions, b.Versions))
	}).Name
}

// Excess returns the index of the device that is given up, by the loads: the last one, which was added last, unless
// another is clearly more loaded.
func Excess(loads []float64) int {
	worst := len(loads) - 1
	for i, load := range loads {
		if load > loads[worst]+clearly {
			worst = i
		}
	}
	return worst
}

// DeviceID names one incarnation of a device: a device that comes back after it was lost has another.
type DeviceID struct {
	Name        string
	Incarnation int
}

// Site is a device that may run a version.
type Site struct {
	Device string
	// Rank is 0 for the devices that the version prefers. A higher rank is taken only if nothing of a lower one can be.
	Rank int
}

// Rank returns the rank of a device among the sites; 0, the best, if it is not one of them.
func Rank(device string, sites []Site) int {
	for _, s := range sites {
		if s.Device == device {
			return s.Rank
		}
	}
	return 0
}
