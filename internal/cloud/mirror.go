// Package cloud keeps copies of model repositories that lie in buckets and registries, in directories that are served.
package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Object is a file of a repository elsewhere. What the source does not declare is empty.
type Object struct {
	Path   string `json:"-"` // in the repository, with slashes
	At     string `json:"-"` // what the source calls it
	Size   int64  `json:"size"`
	Mark   string `json:"mark"`   // it changes with the content
	SHA256 string `json:"sha256"` // in hexadecimal digits
	MD5    []byte `json:"-"`
}

// Listing is what a source has at a time.
type Listing struct {
	Objects []Object
	// Digest names a state that never changes; "": the source can change.
	Digest string
	// Archives have more files. Unpack takes one that was copied to a file, in their order, and returns the files in it
	// that count, which Open opens, too.
	Archives []Object
	Unpack   func(archive, into string) ([]Object, error)
}

// Source is a repository elsewhere. Its errors may have URLs with secrets: show removes them.
type Source interface {
	// List lists the files, those of the state with that digest if it is not "".
	List(ctx context.Context, digest string) (Listing, error)
	// Open opens a file. It may add to o what the source declares of it by now.
	Open(ctx context.Context, o *Object) (io.ReadCloser, error)
}

// Config says where a mirror is kept.
type Config struct {
	Cache string // a directory, which is made
	Name  string // of the model, if the source is only one; "": the last element of its path
	Most  int64  // bytes that archives may unpack to
	Log   *slog.Logger
}

// Mirror is a directory that has what a source has: each model as a whole or not at all.
type Mirror struct {
	address
	log     *slog.Logger
	dial    func(context.Context, address) (Source, error)
	source  Source // nil: not dialled yet
	home    string // of the cache, for this source
	pin     pin
	seen    map[string]string    // keys of the models in the listing before
	refused map[string]time.Time // until when what could not be fetched waits, by its key or digest
	offline bool
}

const (
	warmPatience = 500 * time.Millisecond // with a listing, at a start with versions in the cache
	coldPatience = 30 * time.Second       // without, and later; and with a file that does not go on
	settle       = 3 * time.Second        // how long what changes later must look the same, as in directories
	refusedFor   = time.Minute
)

// open makes the mirror and brings it up to date. Where the source does not answer, what the cache has is enough.
func open(ctx context.Context, from string, c Config, dial func(context.Context, address) (Source, error),
) (*Mirror, error) {
	a, err := parse(from, c.Name)
	if err != nil {
		return nil, err
	}
	m := &Mirror{
		address: a, log: c.Log, home: filepath.Join(c.Cache, a.folder()), dial: dial, refused: map[string]time.Time{},
	}
	unlock, err := m.lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("the copy of %s cannot be kept: %w; name a directory that can be written to with --cache",
			m, err)
	}
	defer unlock()
	for model, f := range m.there() {
		if err := m.verify(ctx, model, f); err != nil {
			return nil, err
		}
	}
	if m.pinned() {
		m.tell(0)
		return m, nil
	}
	patience := coldPatience
	if m.versions() > 0 {
		patience = warmPatience
	}
	switch err := m.update(ctx, patience, false); {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err == nil:
	case m.versions() == 0:
		return nil, fmt.Errorf("%s: %s; its copy, %s, has no version either: see that the source answers and that its SDK "+
			"finds credentials (docs/how-to/remote-repositories.md), or serve a directory", m, show(err), m.home)
	default:
		m.tellOffline(err)
	}
	return m, nil
}

// Refresh lists the source again, and has the copy follow. It returns how soon it must be called again; 0: as usual.
func (m *Mirror) Refresh(ctx context.Context) time.Duration {
	if m.pinned() {
		return 0
	}
	unlock, err := m.lock(ctx)
	if err == nil {
		defer unlock()
		err = m.update(ctx, coldPatience, true)
	}
	switch {
	case errors.Is(err, errUnsettled):
		return settle
	case err != nil && ctx.Err() == nil:
		m.tellOffline(err)
	}
	return 0
}

func (m *Mirror) tellOffline(err error) {
	if !m.offline {
		m.log.Warn("repository does not answer", "event", "repository_offline", "source", m.String(),
			"digest", m.pin.Digest, "effect", "the copy is served as it is", "cache", m.home,
			"versions", m.versions(), "cause", show(err))
	}
	m.offline = true
}

func (m *Mirror) tell(changed int) {
	m.log.Info("repository copied", "event", "repository_copied", "source", m.String(), "digest", m.pin.Digest,
		"cache", m.home, "versions", m.versions(), "changed", changed)
}

func (m *Mirror) tellFailed(unit string, err error) {
	m.log.Error("part of the repository not copied", "event", "repository_copy_failed", "source", m.String(),
		"unit", unit, "cause", show(err))
}

// list asks the source, which need not heed the context.
func (m *Mirror) list(ctx context.Context, patience time.Duration) (Listing, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %v", patience))
	defer cancel()
	source, digest, l, done := m.source, m.pin.Digest, Listing{}, make(chan error, 1)
	go func() {
		var err error
		if source == nil {
			source, err = m.dial(ctx, m.address)
		}
		if err == nil {
			l, err = source.List(ctx, digest)
		}
		done <- err
	}()
	select {
	case err := <-done:
		m.source = source
		return l, because(ctx, err)
	case <-ctx.Done():
		return Listing{}, context.Cause(ctx)
	}
}

// because adds to an error why its context ended.
func because(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}

var errUnsettled = errors.New("still being changed")

// update fetches what is new at the source, and removes what is gone. While the mirror is served (later), only what
// looked the same in two listings is fetched, since writers put the files of a version there one by one. The error is
// of the source as a whole; faults of units are logged.
func (m *Mirror) update(ctx context.Context, patience time.Duration, later bool) error {
	l, err := m.list(ctx, patience)
	if err == nil && len(l.Archives) > 0 {
		err = m.unpack(ctx, &l)
	}
	if err != nil {
		return err
	}
	models, err := m.layout(l.Objects)
	if err != nil {
		return err
	}
	if len(models) == 0 { // it could be another place, or its files could have been moved away for a moment
		return errors.New("it holds no model; expected <model>/<version>/model.onnx")
	}
	m.offline = false
	if l.Digest != "" {
		if err := m.savePin(pin{l.Digest, keyOf(models)}); err != nil {
			return err
		}
	}
	there, seen := m.there(), map[string]string{}
	all := maps.Clone(there) // what is gone, too
	maps.Copy(all, models)
	changed, unsettled := 0, false
	for _, model := range slices.Sorted(maps.Keys(all)) {
		want, before := models[model], there[model]
		seen[model] = want.key()
		switch {
		case want.key() == before.key():
			continue
		case later && seen[model] != m.seen[model]:
			unsettled = true
			continue
		}
		next, err := m.follow(ctx, model, want, before)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			m.tellFailed(model, err)
		case next.key() != before.key():
			changed++
		}
	}
	m.seen = seen
	if changed > 0 || !later {
		m.tell(changed)
	}
	switch {
	case unsettled:
		return errUnsettled
	case m.versions() == 0:
		return errors.New("none of its versions could be fetched, for the causes in the log")
	}
	return nil
}

// unpack adds to a listing what is in its archives.
func (m *Mirror) unpack(ctx context.Context, l *Listing) error {
	if time.Now().Before(m.refused[l.Digest]) {
		return errors.New("its layers could not be used a moment ago")
	}
	m.refused[l.Digest] = time.Now().Add(refusedFor)
	folder, err := m.newFolder()
	if err != nil {
		return err
	}
	for _, archive := range l.Archives {
		packed := filepath.Join(folder, "packed")
		if err := m.copy(ctx, &archive, packed); err != nil {
			return fmt.Errorf("layer %s: %w", archive.At, err)
		}
		inside, err := l.Unpack(packed, filepath.Join(folder, "unpacked"))
		if err = errors.Join(err, os.Remove(packed)); err != nil {
			return fmt.Errorf("layer %s: %w", archive.At, err)
		}
		for _, o := range inside {
			o.Mark = archive.Mark
			l.Objects = append(l.Objects, o)
		}
	}
	delete(m.refused, l.Digest)
	return nil
}

// follow brings one model up to date, in one step when all of it is there, and returns what it is then. A version that
// cannot be had stays as it was; for a fault of the settings the whole model does.
func (m *Mirror) follow(ctx context.Context, model string, want, before files) (files, error) {
	folder, err := m.newFolder()
	if err != nil {
		return before, err
	}
	next, units, had := files{}, want.units(), before.units()
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(units))) { // numbers, the versions, come late
		unit, key := units[name], model+units[name].key()
		same, wait := unit.key() == had[name].key(), time.Now().Before(m.refused[key])
		if !same && !wait {
			err = m.fetch(ctx, folder, unit)
		}
		if ctx.Err() != nil {
			return before, ctx.Err()
		}
		if err != nil {
			m.refused[key] = time.Now().Add(refusedFor)
			m.tellFailed(model+"/"+name, err)
			wait, err = true, os.RemoveAll(filepath.Join(folder, name))
		}
		if err != nil || wait && !versionNumber.MatchString(name) {
			return before, err
		}
		if same || wait {
			unit = had[name]
		}
		maps.Copy(next, unit)
	}
	if next.key() == before.key() {
		return before, nil
	}
	return next, m.place(model, folder, next)
}

func (m *Mirror) fetch(ctx context.Context, folder string, unit files) error {
	for at, o := range unit {
		if err := m.copy(ctx, &o, filepath.Join(folder, at)); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		unit[at] = o
	}
	return nil
}
