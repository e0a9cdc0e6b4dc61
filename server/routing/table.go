package routing

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/weftserve/weft/runtime/catalog"
)

// Choice is a request's choice of the version. The zero value leaves it to the server. At most one field is set.
type Choice struct {
	Version *int64
	Label   *string
}

// Table says which version answers for each model. It is immutable and safe for concurrent use.
//
// Names that come with requests are keys of its maps and nothing else: no name is ever parsed, normalised or made a
// path, so a name that looks like another one, or like a path, is simply absent.
type Table struct {
	snapshot *catalog.Snapshot
	models   catalog.Map[string, *entry]
}

// entry is what a table has of one model. It is made anew when the model changes, and immutable.
type entry struct {
	model   *catalog.Model
	seed    uint64
	split   split
	reserve split  // answers when nothing of split is ready
	name    string // the hash of both
	shadows []shadow
}

// NewTable returns the table of a snapshot.
func NewTable(s *catalog.Snapshot) *Table { return (&Table{snapshot: &catalog.Snapshot{}}).follow(s) }

// follow returns the table of another snapshot. It takes time only for the models that differ.
func (t *Table) follow(s *catalog.Snapshot) *Table {
	next := &Table{snapshot: s, models: t.models}
	for name, m := range s.Models.Since(t.snapshot.Models) {
		if m == nil {
			next.models = next.models.Without(name)
			continue
		}
		e := &entry{model: m, seed: hash(name), shadows: newShadows(m)}
		e.split, e.reserve = newSplit(m)
		e.name = named(e.seed, e.split, e.reserve)
		next.models = next.models.With(name, e)
	}
	return next
}

// Model returns the named model. The error is a *NotFoundError.
func (t *Table) Model(name string) (*catalog.Model, error) {
	e, err := t.entry(name)
	if err != nil {
		return nil, err
	}
	return e.model, nil
}

// Alternative returns another version that is ready and fit and takes the same inputs: the one with the largest part of
// the traffic, or else the newest. Nil: there is none.
func (t *Table) Alternative(v *catalog.Version, health Health) *catalog.Version {
	e := t.models.Get(v.Model)
	if e == nil {
		return nil
	}
	can := func(other *catalog.Version) bool {
		return other != nil && other.Number != v.Number && other.State == catalog.Ready &&
			other.Signature.Same(v.Signature) && health.Fit(v.Model, other.Number)
	}
	var rest split
	for _, p := range e.split {
		if can(p.version) {
			rest = append(rest, p)
		}
	}
	if most := rest.largest(); most != nil {
		return most.version
	}
	for _, other := range slices.Backward(e.model.Versions) {
		if can(other) {
			return other
		}
	}
	return nil
}

// entry returns that of a model. The error is a *NotFoundError that lists the models.
func (t *Table) entry(name string) (*entry, error) {
	if e := t.models.Get(name); e != nil {
		return e, nil
	}
	return nil, &NotFoundError{Kind: KindModel, Name: name, exists: t.exists()}
}

// exists returns the models' names, for the message that a name is not among them.
func (t *Table) exists() string {
	return listSome(func(yield func(string) bool) {
		for name := range t.models.All() {
			if !yield(Quote(name)) {
				return
			}
		}
	}, t.models.Len())
}

// Absent returns the error of a model that does not exist, for somebody who knows only the models that sees is true of.
// That it is there, but not known, must not show.
func (t *Table) Absent(name string, sees func(model string) bool) error {
	known := t.Names(sees)
	for i, model := range known {
		known[i] = Quote(model)
	}
	return &NotFoundError{Kind: KindModel, Name: name, exists: List(known)}
}

// Names returns the names, in order, of the models that sees is true of.
func (t *Table) Names(sees func(model string) bool) []string {
	known := []string{}
	for model := range t.models.All() {
		if sees(model) {
			known = append(known, model)
		}
	}
	slices.Sort(known)
	return known
}

// Resolve returns the version that the request chose, or if it chose none the ready version that most of the traffic
// goes to. The error is a *NotFoundError, a *NotReadyError, a *TakenOutError,
// a *RolledBackError, a *FailedError or a *catalog.ElsewhereError.
func (t *Table) Resolve(name string, choice Choice) (Route, error) {
	e, err := t.entry(name)
	if err != nil {
		return Route{}, err
	}
	m := e.model
	switch {
	case choice.Version != nil:
		return resolveVersion(m, *choice.Version)
	case choice.Label != nil:
		number, ok := m.Labels[*choice.Label]
		if !ok && m.Elsewhere != nil {
			return Route{}, m.Elsewhere
		}
		if !ok {
			return Route{}, &NotFoundError{Kind: KindLabel, Model: m.Name, Name: *choice.Label, exists: listLabels(m)}
		}
		route, err := resolveVersion(m, number)
		if absent, ok := errors.AsType[*NotFoundError](err); ok {
			absent.byLabel = *choice.Label
		}
		return route, err
	}
	most := cmp.Or(e.split.largest(), e.reserve.largest())
	if most == nil {
		return Route{}, e.noneReady()
	}
	return Route{Version: most.version, Slot: most.slot, Table: e.name}, nil
}

// choose returns the part that answers a key, nil if none is ready. wanted is the part that the weights alone would
// have had.
func (e *entry) choose(key uint64, health Health) (answers, wanted *part) {
	answers, wanted = e.split.choose(e.model.Name, key, health)
	if answers == nil {
		answers, _ = e.reserve.choose(e.model.Name, key, health)
	}
	return answers, wanted
}

// episodeKey hashes the unit that stays with one version.
func (e *entry) episodeKey(q *Request) uint64 {
	if q.Episode != "" {
		return join(e.seed, hash(q.Episode))
	}
	return join(e.seed, mix(q.Serial)) // its id need not be its own
}

// ownHash hashes the id or number that tells the request from others.
func (q *Request) ownHash() uint64 {
	if q.RequestID != "" {
		return hash(q.RequestID)
	}
	return mix(q.Serial)
}

// readyVersion returns the numbered version if it is ready, else nil.
func readyVersion(m *catalog.Model, number int64) *catalog.Version {
	if v := m.Version(number); v != nil && v.State == catalog.Ready {
		return v
	}
	return nil
}

// resolveVersion returns the numbered version, which may have been rolled back: a request that names it gets it.
func resolveVersion(m *catalog.Model, number int64) (Route, error) {
	v := m.Version(number)
	switch {
	case m.Elsewhere != nil && (v == nil || v.State != catalog.Ready):
		return Route{}, m.Elsewhere
	case v == nil && m.Cause != "":
		return Route{}, &FailedError{Model: m.Name, Cause: m.Cause}
	case v == nil:
		return Route{}, &NotFoundError{
			Kind: KindVersion, Model: m.Name, Name: formatVersion(number),
			exists: listVersions(m),
		}
	case v.State == catalog.Ready:
		return Route{Version: v}, nil
	}
	return Route{}, notReady(v)
}

// noneReady says why no version answers a request that named none.
func (e *entry) noneReady() error {
	if e.model.Elsewhere != nil {
		return e.model.Elsewhere
	}
	if len(e.split) == 0 {
		return noneReady(e.model)
	}
	// Only the versions that the traffic names, in ascending order. Those of them that do not exist come last.
	named := &catalog.Model{Name: e.model.Name, Cause: e.model.Cause}
	for _, v := range e.model.Versions {
		if slices.ContainsFunc(e.split, func(p part) bool { return p.number == v.Number }) {
			named.Versions = append(named.Versions, v)
		}
	}
	if len(named.Versions) > 0 || named.Cause != "" {
		return noneReady(named)
	}
	return &NotFoundError{
		Kind: KindVersion, Model: e.model.Name, Name: formatVersion(e.split[0].number), exists: listVersions(e.model),
		byTraffic: true,
	}
}

// noneReady says why a model has no version that answers. A version that is on its way, in either direction, says more
// about the caller's next step than one that failed.
func noneReady(m *catalog.Model) error {
	if len(m.Versions) == 0 {
		if m.Cause != "" {
			return &FailedError{Model: m.Name, Cause: m.Cause}
		}
		return &NotFoundError{Kind: KindVersion, Model: m.Name}
	}
	for _, v := range slices.Backward(m.Versions) {
		if v.State == catalog.Ready && m.WasRolledBack(v.Number) {
			return &RolledBackError{Model: m.Name, Version: v.Number}
		}
	}
	for _, comes := range []func(*catalog.Version) bool{
		func(v *catalog.Version) bool { return v.State == catalog.Loading },
		func(v *catalog.Version) bool { return v.State == catalog.Unloading },
		func(v *catalog.Version) bool { return v.TakenOut },
	} {
		for _, v := range slices.Backward(m.Versions) {
			if comes(v) {
				return notReady(v)
			}
		}
	}
	return notReady(m.Versions[len(m.Versions)-1])
}

// notReady says why a version does not answer: it was taken out, has failed, or is on its way.
func notReady(v *catalog.Version) error {
	if v.TakenOut {
		return &TakenOutError{Model: v.Model, Version: v.Number, Cause: v.Cause, Again: v.Again}
	}
	if v.State == catalog.Failed {
		return &FailedError{Model: v.Model, Version: v.Number, Cause: v.Cause}
	}
	return &NotReadyError{Model: v.Model, Version: v.Number, State: v.State}
}

// maxQuoted is how many bytes of a foreign name an error message repeats.
const maxQuoted = 64

// Quote makes a name that came with a request fit for messages and logs: in double quotes, everything but printable
// ASCII escaped (so that look-alikes can be told apart and nothing can forge a line), and cut after 64 bytes of the
// result with the full length appended.
func Quote(name string) string {
	out, used := make([]byte, 0, maxQuoted+2), 0
	out = append(out, '"')
	for used < len(name) {
		_, size := utf8.DecodeRuneInString(name[used:])
		escaped := strconv.QuoteToASCII(name[used : used+size])
		escaped = escaped[1 : len(escaped)-1]
		if len(out)-1+len(escaped) > maxQuoted {
			break
		}
		out = append(out, escaped...)
		used += size
	}
	out = append(out, '"')
	if used < len(name) {
		out = append(out, "... ("...)
		out = strconv.AppendInt(out, int64(len(name)), 10)
		out = append(out, " bytes)"...)
	}
	return string(out)
}
