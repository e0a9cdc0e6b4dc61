package sim

import (
	"fmt"
	"time"
)

// The families of baselines that documents compare with. Within one, a member is chosen for each workload; see tune.
const (
	FamilyTFServing    = "TensorFlow Serving round robin"
	FamilyTriton       = "Triton independent batchers"
	FamilyTritonReject = "Triton with REJECT"
	FamilyClockwork    = "Clockwork"
	FamilyNexus        = "Nexus"
)

// timeouts is the grid over which batch timeouts and queue delays are tuned, in milliseconds.
var timeouts = []int{0, 1, 2, 5, 10, 20}

// Baselines returns the policies to compare with.
func Baselines() []Maker {
	var all []Maker
	add := func(family, name string, policy func(*Env) Policy) {
		all = append(all, Maker{Family: family, Name: name, New: policy})
	}
	for _, ms := range timeouts {
		timeout := time.Duration(ms) * time.Millisecond
		add(FamilyTFServing, fmt.Sprintf("tfserving-%dms", ms),
			func(e *Env) Policy { return newTFServing(e, timeout, false) })
		add(FamilyTFServing, fmt.Sprintf("tfserving-%dms-expiry", ms),
			func(e *Env) Policy { return newTFServing(e, timeout, true) })
	}
	for _, family := range []string{FamilyTriton, FamilyTritonReject} {
		for _, ms := range timeouts {
			reject, name := family == FamilyTritonReject, fmt.Sprintf("triton-%dms", ms)
			if reject {
				name += "-reject"
			}
			all = append(all, Maker{
				Family: family, Name: name,
				New:   func(e *Env) Policy { return newTriton(e, time.Duration(ms)*time.Millisecond, reject) },
				Lanes: func(models int) int { return models },
			})
		}
	}
	for _, ms := range []int{5, 1, 0} {
		buffer := time.Duration(ms) * time.Millisecond
		add(FamilyClockwork, fmt.Sprintf("clockwork-buffer%d", ms),
			func(e *Env) Policy { return newClockwork(e, buffer, false) })
		add(FamilyClockwork, fmt.Sprintf("clockwork-buffer%d-median", ms),
			func(e *Env) Policy { return newClockwork(e, buffer, true) })
	}
	add(FamilyNexus, "nexus", func(e *Env) Policy { return newNexus(e, false) })
	add(FamilyNexus, "nexus-saturated", func(e *Env) Policy { return newNexus(e, true) })
	add("Symphony eager", "symphony", func(e *Env) Policy { return newSymphony(e) })
	add("EDF with window drop", "edf-drop", newEDFDrop)
	add("EDF", "edf", newEDF)
	add("SFQ", "sfq", func(e *Env) Policy { return newSFQ(e) })
	add("least slack", "least-slack", newSlack)
	return all
}
