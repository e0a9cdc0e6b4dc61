package routing

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
)

// Kind is the kind of thing that a name was meant to name.
type Kind string

// The kinds, as error details spell them.
const (
	KindModel   Kind = "model"
	KindVersion Kind = "version"
	KindLabel   Kind = "label"
)

// maxListed bounds, in bytes, the part of an error message that lists the existing names.
const maxListed = 400

// NotFoundError says that nothing has the name that the request asked for. Its text lists the existing names.
type NotFoundError struct {
	Kind Kind
	// Model is the model that was searched, for versions and labels.
	Model string
	// Name is the name in the request: any bytes. Empty if no version of the model is left: an operator unloaded all.
	Name string

	exists    string // the existing names, for people
	byTraffic bool   // it was the traffic that named it
	byLabel   string // the label of the request that named it
}

func (e *NotFoundError) Error() string {
	switch {
	case e.Kind == KindModel:
		return fmt.Sprintf("no model is named %s; there is %s", Quote(e.Name), e.exists)
	case e.Kind == KindLabel:
		hint := ""
		if e.exists == "none" {
			hint = "; `weft label` makes one"
		}
		return fmt.Sprintf("model %s has no label %s; there is %s%s", Quote(e.Model), Quote(e.Name), e.exists, hint)
	case e.Name == "":
		return fmt.Sprintf("all versions of model %s were unloaded by hand; load one with `weft load` (LoadVersion "+
			"of weft.v1.AdminService), or change versions.policy in model.yaml", Quote(e.Model))
	case e.byTraffic:
		return fmt.Sprintf("the traffic of model %s names version %s, which is not there; there is %s (change the "+
			"traffic, or versions.policy in model.yaml)",
			Quote(e.Model), e.Name, e.exists)
	case e.byLabel != "":
		return fmt.Sprintf("the label %s of model %s names version %s, which is not there; there is %s (change the "+
			"label, or put the version where it was)",
			Quote(e.byLabel), Quote(e.Model), e.Name, e.exists)
	default:
		return fmt.Sprintf("model %s has no version %s; there is %s (versions.policy in model.yaml, and who loads and "+
			"unloads by hand, decide which are served)",
			Quote(e.Model), e.Name, e.exists)
	}
}

// NotReadyError says that the version exists and will answer later, or has just stopped answering.
type NotReadyError struct {
	Model   string
	Version int64
	State   catalog.State
}

func (e *NotReadyError) Error() string {
	return fmt.Sprintf("model %s version %d is %v; try again", Quote(e.Model), e.Version, e.State)
}

// FailedError says that the version could not be loaded, and trying again changes nothing until an operator repairs it.
type FailedError struct {
	Model string
	// Version is 0 when nothing of the model could be read.
	Version int64
	Cause   string
}

func (e *FailedError) Error() string {
	if e.Version == 0 {
		return fmt.Sprintf("model %s could not be read: %s", Quote(e.Model), e.Cause)
	}
	return fmt.Sprintf("model %s version %d failed to load: %s", Quote(e.Model), e.Version, e.Cause)
}

// TakenOutError says that the version was taken out because its requests ended the engine's process again and again.
type TakenOutError struct {
	Model   string
	Version int64
	Cause   string
	// Again is when it is loaded again by itself; zero: never.
	Again time.Time
}

func (e *TakenOutError) Error() string {
	return fmt.Sprintf("model %s version %d: %s", Quote(e.Model), e.Version, e.Cause)
}

// RolledBackError says that every version that is ready was rolled back, and that none of them was named since.
type RolledBackError struct {
	Model   string
	Version int64 // the newest of them
}

func (e *RolledBackError) Error() string {
	return fmt.Sprintf("model %s version %d was rolled back, and no other version is ready; name it in the request, "+
		"or give it traffic (SetTraffic)",
		Quote(e.Model), e.Version)
}

// List joins items with commas, bounded in length: items that do not fit are counted. Of no items it says "none".
func List(items []string) string { return listSome(slices.Values(items), len(items)) }

// listSome is List of so many items. It looks at no more of them than it lists.
func listSome(items iter.Seq[string], total int) string {
	var b strings.Builder
	listed := 0
	for item := range items {
		if b.Len()+len(item) > maxListed && listed > 0 {
			fmt.Fprintf(&b, " and %d more", total-listed)
			break
		}
		if listed > 0 {
			b.WriteString(", ")
		}
		b.WriteString(item)
		listed++
	}
	return cmp.Or(b.String(), "none")
}

func listVersions(m *catalog.Model) string {
	names := make([]string, 0, len(m.Versions))
	for _, v := range slices.Backward(m.Versions) {
		name := formatVersion(v.Number)
		if v.State != catalog.Ready {
			name += " (" + v.State.String() + ")"
		}
		names = append(names, name)
	}
	return List(names)
}

func listLabels(m *catalog.Model) string {
	names := make([]string, 0, len(m.Labels))
	for _, label := range slices.Sorted(maps.Keys(m.Labels)) {
		names = append(names, Quote(label))
	}
	return List(names)
}

func formatVersion(number int64) string { return strconv.FormatInt(number, 10) }
