package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrUnknown says that a change names a model, version or label that is not there. The error that wraps it says which.
var ErrUnknown = errors.New("not found")

// ErrBusy says that the version is being loaded or unloaded.
var ErrBusy = errors.New("the model version is being loaded or unloaded")

// RevisionError says that the traffic was changed meanwhile, so that a change based on an older revision was not made.
type RevisionError struct {
	Model string
	// Current is the present revision, and Expected the one that the change was based on.
	Current, Expected uint64
}

func (e *RevisionError) Error() string {
	return fmt.Sprintf("the traffic of model %q is at revision %d, not %d: somebody changed it meanwhile; look at it "+
		"and decide again", e.Model, e.Current, e.Expected)
}

// NotReadyError says that a version cannot be given requests, because it is not ready.
type NotReadyError struct {
	Model   string
	Version int64
	// State is 0 where there is no such version.
	State State
	// Cause says why it failed, or why nothing of the model can be read; "" for neither. It is for callers, see Public.
	Cause string
}

func (e *NotReadyError) Error() string {
	state := "is " + e.State.String()
	if e.State == 0 {
		state = "is not resident"
	}
	remedy := fmt.Sprintf("load it first: weft load %s %d", e.Model, e.Version)
	if e.Cause != "" {
		remedy = "mend it first: " + e.Cause
	}
	return fmt.Sprintf("model %q version %d %s; only a version that is ready can be given requests: %s", e.Model,
		e.Version, state, remedy)
}

// Unwrap returns ErrNotReady.
func (e *NotReadyError) Unwrap() error { return ErrNotReady }

// InUseError says that a version is not unloaded because requests are led to it by name. The error that wraps it says
// which version.
type InUseError struct {
	Model   string
	Version int64
	By      []string // such as `label "stable"`
}

func (e *InUseError) Error() string {
	lead := "lead"
	if len(e.By) == 1 {
		lead = "leads"
	}
	return fmt.Sprintf("%s %s requests to it; change that first", strings.Join(e.By, " and "), lead)
}

// MemoryError says that a version was not loaded because the budget of memory does not suffice. All figures are bytes,
// and estimates: one and a half times the size of a model's files.
type MemoryError struct {
	Model               string
	Version             int64
	Need, InUse, Budget int64
	// Residents are the versions that take the memory, the largest first.
	Residents []Resident
}

// Resident is a version that takes memory.
type Resident struct {
	Model   string
	Version int64
	Bytes   int64
}

// PlacementError says that no device can take a version.
type PlacementError struct {
	Model   string
	Version int64
	Need    int64 // bytes, by the estimate described at MemoryError
	Devices []FullDevice
}

// FullDevice is one that cannot take a version.
type FullDevice struct {
	Name string
	// Free is how many bytes of its memory are free, where that is the reason against it.
	Free int64
	// Cause is any other reason against it, such as that it is lost; nil: none.
	Cause error
	// Lost: it failed, and is not used until it is back. Resident: the version is on it already.
	Lost, Resident bool
}

func (e *PlacementError) Error() string {
	var on []string
	for _, d := range e.Devices {
		if d.Resident {
			on = append(on, d.Name)
		}
	}
	if len(e.Devices) == 1 && slices.Equal(on, []string{"cpu"}) {
		return fmt.Sprintf("there is no further device for model %q version %d, which is on cpu already: one replica serves "+
			"with all processors; set replicas to 1 in the model's model.yaml (--devices cpu:N runs N batches at a time)",
			e.Model, e.Version)
	}
	if len(on) > 0 && len(on) == len(e.Devices) {
		return fmt.Sprintf("there is no further device for model %q version %d, which is on %s already; name more of "+
			"them in --devices, "+
			"or set replicas to %d in the model's model.yaml", e.Model, e.Version, strings.Join(on, " and "), len(on))
	}
	return fmt.Sprintf("no device can take model %q version %d, which %s; %s", e.Model, e.Version, e.Shortage(),
		e.advice())
}

// Shortage states the version's need and the reason against each of the devices, such as "needs about 2.0 MiB: cuda:0
// has 1.0 MiB free".
func (e *PlacementError) Shortage() string {
	var b strings.Builder
	fmt.Fprintf(&b, "needs about %s", mebibytes(e.Need))
	separator := ": "
	for _, d := range e.Devices {
		if d.Cause != nil {
			fmt.Fprintf(&b, "%s%s: %v", separator, d.Name, d.Cause)
		} else {
			fmt.Fprintf(&b, "%s%s has %s free", separator, d.Name, mebibytes(d.Free))
		}
		separator = ", "
	}
	return b.String()
}

// advice says what to do, depending on the devices.
func (e *PlacementError) advice() string {
	var lost, resident, full bool
	for _, d := range e.Devices {
		lost, resident = lost || d.Lost, resident || d.Resident
		full = full || !d.Lost && !d.Resident
	}
	var all []string
	if full {
		all = append(all, "unload a model there, bound what others take by onnx.device_memory_limit, serve a smaller "+
			"model")
	}
	if lost {
		all = append(all, "start the server anew to have the lost devices back")
	}
	if resident {
		all = append(all, "set fewer replicas in the model's model.yaml")
	}
	return strings.Join(append(all, "or name another device in --devices"), ", ")
}

// Unwrap returns the reasons against the devices.
func (e *PlacementError) Unwrap() []error {
	var causes []error
	for _, d := range e.Devices {
		if d.Cause != nil {
			causes = append(causes, d.Cause)
		}
	}
	return causes
}

// maxResidents bounds how many residents the text of a MemoryError lists.
const maxResidents = 8

func (e *MemoryError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "loading model %q version %d needs about %s, and %s of the memory budget of %s are taken", e.Model,
		e.Version,
		mebibytes(e.Need), mebibytes(e.InUse), mebibytes(e.Budget))
	for i, r := range e.Residents {
		if i == maxResidents {
			fmt.Fprintf(&b, " and %d more", len(e.Residents)-i)
			break
		}
		separator := ", "
		if i == 0 {
			separator = " by "
		}
		fmt.Fprintf(&b, "%s%s/%d (%s)", separator, r.Model, r.Version, mebibytes(r.Bytes))
	}
	b.WriteString("; raise the budget, unload a version, or, where an old version is to make room for a new one, set " +
		"versions.transition: resource in model.yaml")
	return b.String()
}

// Public returns the text without the residents: the caller may not be allowed to see all of them.
func (e *MemoryError) Public() string {
	others := *e
	others.Residents = nil
	return others.Error()
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// LoadError says why a requested version cannot be loaded, and what to do.
type LoadError struct {
	Model   string
	Version int64
	Cause   error
}

func (e *LoadError) Error() string {
	return fmt.Sprintf("load model %q version %d: %v", e.Model, e.Version, e.Cause)
}

// Unwrap returns the cause, such as a *MemoryError.
func (e *LoadError) Unwrap() error { return e.Cause }
