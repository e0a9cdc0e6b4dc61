// Package routing decides which version of a model answers a request: a pure function of an immutable table.
package routing

import (
	"slices"

	"github.com/weftserve/weft/runtime/catalog"
)

// DefaultSlot is the name of the traffic entry of a model whose traffic nobody divided.
const DefaultSlot = "prod"

// Choice is what a request says about the version. The zero value leaves it to the server. At most one field is set.
type Choice struct {
	Version *int64
	Label   *string
}

// Route is the outcome of routing.
type Route struct {
	Version *catalog.Version
	// Slot names the traffic entry that led here. It is empty when the request chose the version or label itself.
	Slot string
}

// Table says which version answers for each model. It is immutable and safe for concurrent use.
//
// Names that come with requests are keys of its maps and nothing else: no name is ever parsed, normalised or made a path, so a
// name that looks like another one, or like a path, is simply absent.
type Table struct {
	snapshot *catalog.Snapshot
	models   map[string]entry
	exists   string // the models' names, for the message that a name is not among them
}

type entry struct {
	model *catalog.Model
	// newest is the version that answers when the request names none; nil if no version is ready.
	newest *catalog.Version
}

// NewTable returns the table of a snapshot.
func NewTable(s *catalog.Snapshot) *Table {
	t := &Table{snapshot: s, models: make(map[string]entry, len(s.Models))}
	names := make([]string, 0, len(s.Models))
	for _, m := range s.Models {
		t.models[m.Name] = entry{model: m, newest: m.Newest()}
		names = append(names, Quote(m.Name))
	}
	t.exists = List(names)
	return t
}

// Model returns the named model. The error is a *NotFoundError.
func (t *Table) Model(name string) (*catalog.Model, error) {
	e, ok := t.models[name]
	if !ok {
		return nil, &NotFoundError{Kind: KindModel, Name: name, exists: t.exists}
	}
	return e.model, nil
}

// Resolve returns the version that answers for the named model. The error is a *NotFoundError, a *NotReadyError or a
// *FailedError.
func (t *Table) Resolve(name string, choice Choice) (Route, error) {
	m, err := t.Model(name)
	if err != nil {
		return Route{}, err
	}
	switch {
	case choice.Version != nil:
		return resolveVersion(m, *choice.Version)
	case choice.Label != nil:
		number, ok := m.Labels[*choice.Label]
		if !ok {
			return Route{}, &NotFoundError{Kind: KindLabel, Model: m.Name, Name: *choice.Label, exists: listLabels(m)}
		}
		return resolveVersion(m, number)
	}
	if v := t.models[name].newest; v != nil {
		return Route{Version: v, Slot: DefaultSlot}, nil
	}
	return Route{}, noneReady(m)
}

func resolveVersion(m *catalog.Model, number int64) (Route, error) {
	v := m.Version(number)
	switch {
	case v == nil && m.Cause != "":
		return Route{}, &FailedError{Model: m.Name, Cause: m.Cause}
	case v == nil:
		return Route{}, &NotFoundError{Kind: KindVersion, Model: m.Name, Name: formatVersion(number), exists: listVersions(m)}
	case v.State == catalog.Ready:
		return Route{Version: v}, nil
	}
	return Route{}, notReady(v)
}

// noneReady tells why a model has no version that answers. A version that is on its way, in either direction, says more about
// what the caller should do than one that failed.
func noneReady(m *catalog.Model) error {
	if len(m.Versions) == 0 {
		if m.Cause != "" {
			return &FailedError{Model: m.Name, Cause: m.Cause}
		}
		return &NotFoundError{Kind: KindVersion, Model: m.Name}
	}
	for _, state := range []catalog.State{catalog.Loading, catalog.Unloading} {
		for _, v := range slices.Backward(m.Versions) {
			if v.State == state {
				return notReady(v)
			}
		}
	}
	return notReady(m.Versions[len(m.Versions)-1])
}

func notReady(v *catalog.Version) error {
	if v.State == catalog.Failed {
		return &FailedError{Model: v.Model, Version: v.Number, Cause: v.Cause}
	}
	return &NotReadyError{Model: v.Model, Version: v.Number, State: v.State}
}
