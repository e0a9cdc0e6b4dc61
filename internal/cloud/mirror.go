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
	"strconv"
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
	// Archives have more files. Unpack takes the files 0, 1, ... of a folder, which are copies of them, and writes to
	// another one what counts, which Open opens.
	Archives []Object
	Unpack   func(from, into string) ([]Object, error)
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
	Config
	dial        func(context.Context, address) (Source, error)
	source      Source               // nil: not dialled yet
	home        string               // of the cache, for this source
	digest, pin string               // what a tag was resolved to, and the key of all that is there; "": none was
	seen        map[string]string    // keys of the models in the listing before; nil: there was none
	refused     map[string]time.Time // until when what failed waits, by the name of a model with its key, or the digest
	offline     bool
}

const (
	warmPatience = 500 * time.Millisecond // with a listing, at a start with versions in the cache
	coldPatience = 30 * time.Second       // without, and later; and with a file that does not go on
	refusedFor   = time.Minute
)

// settle is how long what changes in a copy that may be served must look the same, as in directories.
var settle = 3 * time.Second // or of a test

// open makes the mirror and brings it up to date. Where the source does not answer, what the cache has is enough.
func open(ctx context.Context, from string, c Config, dial func(context.Context, address) (Source, error),
) (*Mirror, error) {
	a, err := parse(from, c.Name)
	if err != nil {
		return nil, err
	}
	m := &Mirror{
		address: a, Config: c, home: filepath.Join(c.Cache, a.folder()), dial: dial, refused: map[string]time.Time{},
	}
	if err = m.verify(ctx); err != nil {
		return nil, fmt.Errorf("the copy of %s in %s cannot be kept: %w; see that it can be read and written, or name "+
			"another directory with --cache", m, m.home, err)
	}
	if m.pinned() {
		m.tell(0)
		return m, nil
	}
	patience := coldPatience
	if m.versions() > 0 {
		patience = warmPatience
	}
	err = m.look(ctx, patience, false)
	if errors.Is(err, errUnsettled) {
		pause(ctx, settle)
		err = m.look(ctx, patience, false)
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil && m.versions() == 0:
		return nil, fmt.Errorf("%s: %s; its copy, %s, has no version either", m, show(err), m.home)
	case err != nil && !errors.Is(err, errUnsettled):
		m.tellOffline(err)
	}
	return m, nil
}

// Refresh lists the source again, and has the copy follow. It returns how soon it must be called again; 0: as usual.
func (m *Mirror) Refresh(ctx context.Context) time.Duration {
	if m.pinned() || m.waits(m.digest) {
		return 0
	}
	switch err := m.look(ctx, coldPatience, true); {
	case err == nil:
		m.offline = false
	case errors.Is(err, errUnsettled):
		return settle
	case ctx.Err() == nil:
		m.tellOffline(err)
	}
	return 0
}

func (m *Mirror) tellOffline(err error) {
	if !m.offline {
		m.Log.Warn("repository cannot be followed", "event", "repository_offline", "source", m.String(),
			"digest", m.digest, "effect", "the copy is served as it is", "cache", m.home,
			"versions", m.versions(), "cause", show(err))
	}
	m.offline = true
}

func (m *Mirror) tell(changed int) {
	m.Log.Info("repository copied", "event", "repository_copied", "source", m.String(), "digest", m.digest,
		"cache", m.home, "versions", m.versions(), "changed", changed)
}

func (m *Mirror) tellFailed(unit string, err error) {
	m.Log.Error("part of the repository not copied", "event", "repository_copy_failed", "source", m.String(),
		"unit", unit, "cause", show(err))
}

// list asks the source, which need not heed the context.
func (m *Mirror) list(ctx context.Context, patience time.Duration) (Listing, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %v", patience))
	defer cancel()
	source, digest, l, done := m.source, m.digest, Listing{}, make(chan error, 1)
	go func() {
		var err error
		if source == nil {
			source, err = m.dial(context.WithoutCancel(ctx), m.address) // it is kept for later
		}
		if err == nil {
			l, err = source.List(ctx, digest)
		}
		done <- err
	}()
	var err error
	select {
	case err = <-done:
		m.source = source
	case <-ctx.Done():
	}
	if err = errors.Join(err, context.Cause(ctx)); err != nil {
		return Listing{}, fmt.Errorf("%w; see that the source answers and that its SDK finds credentials "+
			"(docs/how-to/remote-repositories.md)", err)
	}
	return l, nil
}

var errUnsettled = errors.New("still being changed")

// look lists the source, and has the copy follow. Other processes that have the copy need not wait for the source.
func (m *Mirror) look(ctx context.Context, patience time.Duration, later bool) error {
	before := m.key()
	l, err := m.list(ctx, patience)
	if err != nil {
		return err
	}
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if m.key() != before {
		return errUnsettled // another process has followed meanwhile, perhaps a later listing
	}
	return m.update(ctx, l, later || m.versions() > 0)
}

// update fetches what is new in a listing, and removes what is gone. While the copy may be served (later), only what
// looked the same in two listings is fetched, since writers put the files of a version there one by one. The error is
// of the source as a whole; faults of units are logged.
func (m *Mirror) update(ctx context.Context, l Listing, later bool) error {
	if !later {
		files, bytes := slices.Concat(l.Objects, l.Archives), int64(0)
		for _, o := range files {
			bytes += o.Size
		}
		m.Log.Info("repository being copied", "event", "repository_copying", "source", m.String(),
			"digest", l.Digest, "cache", m.home, "files", len(files), "bytes", bytes)
	}
	if err := m.unpack(ctx, &l); err != nil {
		return err
	}
	models, err := m.layout(l.Objects)
	if err == nil && len(models) == 0 { // it could be another place, or its files could have been moved away for a moment
		err = errors.New("it holds no model; expected <model>/<version>/model.onnx")
	}
	if err == nil && l.Digest != "" {
		err = m.savePin(l.Digest, keyOf(models))
	}
	there, _, fault := m.there()
	if err = errors.Join(err, fault); err != nil {
		return err
	}
	all, seen := maps.Clone(there), map[string]string{} // what is gone, too
	maps.Copy(all, models)
	changed, unsettled := 0, false
	for _, model := range slices.Sorted(maps.Keys(all)) {
		want, before := models[model], there[model]
		seen[model] = want.key()
		if want.key() == before.key() || m.waits(model+want.key()) {
			continue
		}
		if later && l.Digest == "" && seen[model] != m.seen[model] {
			unsettled = true
			continue
		}
		moved, err := m.follow(ctx, model, want, before)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			m.refuse(model + want.key())
			m.tellFailed(model, err)
		} else if moved {
			changed++
		}
	}
	if changed > 0 || m.seen == nil {
		m.tell(changed)
	}
	if m.seen = seen; unsettled {
		return errUnsettled
	}
	if m.versions() == 0 {
		return errors.New("none of its versions could be fetched, for the causes in the log")
	}
	return nil
}

func (m *Mirror) refuse(key string) { m.refused[key] = time.Now().Add(refusedFor) }

func (m *Mirror) waits(key string) bool { return time.Now().Before(m.refused[key]) }

// unpack adds to a listing what is in its archives.
func (m *Mirror) unpack(ctx context.Context, l *Listing) error {
	if len(l.Archives) == 0 {
		return nil
	}
	if m.waits(l.Digest) {
		return errors.New("its layers could not be used a moment ago")
	}
	m.refuse(l.Digest)
	folder, err := m.newFolder()
	if err != nil {
		return err
	}
	packed := filepath.Join(folder, "packed")
	for i, archive := range l.Archives {
		if err := m.copy(ctx, &archive, filepath.Join(packed, strconv.Itoa(i))); err != nil {
			return fmt.Errorf("layer %s: %w", archive.At, err)
		}
	}
	inside, err := l.Unpack(packed, filepath.Join(folder, "unpacked"))
	l.Objects = append(l.Objects, inside...)
	return errors.Join(err, os.RemoveAll(packed))
}

// follow brings one model up to date, in one step when all of it is there, and reports whether it is another one then.
// A version that cannot be had stays as it was, as does what is gone at the source until then; for a fault of the
// settings the whole model does.
func (m *Mirror) follow(ctx context.Context, model string, want, before files) (moved bool, err error) {
	folder, err := m.newFolder()
	if err != nil {
		return false, err
	}
	next, units, had, waits := files{}, want.units(), before.units(), false
	maps.Copy(next, before)
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(units))) { // numbers, the versions, come late
		if units[name].key() == had[name].key() {
			continue
		}
		err := m.fetch(ctx, folder, units[name])
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if err != nil {
			m.refuse(model + want.key())
			m.tellFailed(model+"/"+name, err)
			waits, err = true, os.RemoveAll(filepath.Join(folder, name))
			if err != nil || !versionNumber.MatchString(name) {
				return false, err
			}
			continue
		}
		maps.DeleteFunc(next, func(at string, _ Object) bool { return unitOf(at) == name })
		maps.Copy(next, units[name])
	}
	if !waits {
		maps.DeleteFunc(next, func(at string, _ Object) bool { return units[unitOf(at)] == nil })
	}
	if next.key() == before.key() {
		return false, nil
	}
	return true, m.place(model, folder, next)
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
