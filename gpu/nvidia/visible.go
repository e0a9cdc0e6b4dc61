package nvidia

import (
	"slices"
	"strconv"
	"strings"
)

// whole is a GPU as CUDA_VISIBLE_DEVICES can name it. GPUs are in the order of their places on the PCI bus, which is
// how CUDA counts them with CUDA_DEVICE_ORDER=PCI_BUS_ID.
type whole struct {
	uuid  string
	parts []string // UUIDs of its MIG instances that compute; none: it is not divided
}

// place is a GPU, and a part of it or undivided.
type place struct{ whole, part int }

const undivided = -1

// visible lists the devices that CUDA sees, in the order in which it counts them: all if named is nil, else those in
// the list, up to the first entry that names no device, names one again, or could mean several.
//
// CUDA uses one MIG instance at most, the first, and no undivided GPU besides (NVIDIA Multi-Instance GPU User Guide,
// "CUDA Device Enumeration", which says that this may be relaxed): so if there are instances in the list, it has
// nothing else.
func visible(wholes []whole, named *string) []place {
	var places []place
	add := func(w int) {
		if len(wholes[w].parts) == 0 {
			places = append(places, place{w, undivided})
		}
		for p := range wholes[w].parts {
			places = append(places, place{w, p})
		}
	}
	if named == nil {
		for w := range wholes {
			add(w)
		}
	} else {
		seen := map[place]bool{}
		for entry := range strings.SplitSeq(*named, ",") {
			at, ok := find(wholes, strings.TrimSpace(entry))
			if !ok || seen[at] {
				break
			}
			seen[at] = true
			if at.part == undivided {
				add(at.whole)
			} else {
				places = append(places, at)
			}
		}
	}
	if slices.ContainsFunc(places, place.isPart) {
		places = slices.DeleteFunc(places, func(p place) bool { return !p.isPart() })
	}
	return places
}

func (p place) isPart() bool { return p.part != undivided }

// find returns the device that one entry names: by a number, or by the beginning of a UUID.
func find(wholes []whole, entry string) (found place, ok bool) {
	if n, err := strconv.Atoi(entry); err == nil {
		return place{n, undivided}, n >= 0 && n < len(wholes)
	}
	if entry == "" {
		return place{}, false
	}
	matches := 0
	match := func(uuid string, at place) {
		if strings.HasPrefix(uuid, entry) {
			found = at
			matches++
		}
	}
	for w := range wholes {
		match(wholes[w].uuid, place{w, undivided})
		for p, uuid := range wholes[w].parts {
			match(uuid, place{w, p})
		}
	}
	return found, matches == 1
}
