// Package cloud keeps copies of model repositories that lie in buckets and registries, in directories that are served.
package cloud

import (
	"context"
	"crypto/md5" //nolint:gosec // services declare it, and it finds accidents
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weftserve/weft/runtime/modelfile"
)

// Object is a file of a repository elsewhere. What the source does not declare is empty.
type Object struct {
	Path   string // in the repository, with slashes
	At     string // what the source calls it
	Size   int64
	Mark   string // it changes with the content
	SHA256 string // in hexadecimal digits
	MD5    []byte
}

// Listing is what a source has at a time.
type Listing struct {
	Objects []Object
	// Digest names a state that never changes; "": the source can change.
	Digest string
	// Unpack fetches archives into a folder, and returns the files in them, which Open opens, too; nil: there are none.
	Unpack func(ctx context.Context, into string) ([]Object, error)
}

// Source is a repository elsewhere. Its errors may have URLs with secrets: they are logged as shown.
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

// Mirror is a directory that has what a source has: each version as a whole or not at all.
type Mirror struct {
	address
	log     *slog.Logger
	dial    func(context.Context) (Source, error)
	source  Source // nil: not dialled yet
	home    string // of the cache, for this source
	state   manifest
	seen    map[string]string    // marks of the units in the listing before
	refused map[string]time.Time // until when units that could not be fetched wait, by name and mark
	offline bool
}

const (
	warmPatience = time.Second      // with a listing, at a start with versions in the cache
	coldPatience = 30 * time.Second // without, and later; and with a file of which nothing comes
	settle       = 3 * time.Second  // how long what changes later must look the same, as in directories
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
		address: a, log: c.Log, home: filepath.Join(c.Cache, a.folder()), seen: map[string]string{},
		refused: map[string]time.Time{}, dial: func(ctx context.Context) (Source, error) { return dial(ctx, a) },
	}
	unlock, err := m.lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("the copy of %s cannot be kept: %w; name a directory that can be written to with --cache",
			m, err)
	}
	defer unlock()
	patience := coldPatience
	if sound := m.verify(ctx); sound && m.pinned() {
		m.tell(0, 0)
		return m, nil
	}
	if m.state.versions() > 0 {
		patience = warmPatience
	}
	switch err := m.update(ctx, patience, false); {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err == nil:
	case m.state.versions() == 0:
		return nil, fmt.Errorf("%s: %w; its copy, %s, has no version either: see that the source answers and that its SDK "+
			"finds credentials (docs/REPOSITORIES.md), or serve a directory", m, shown{err}, m.home)
	default:
		m.tellOffline(err)
	}
	return m, nil
}

// Dir is the directory of the copy.
func (m *Mirror) Dir() string { return filepath.Join(m.home, "models") }

// pinned reports whether there is nothing to ask the source for.
func (m *Mirror) pinned() bool { return m.state.Digest != "" && m.state.Whole }

// Refresh lists the source again, and has the copy follow. It returns how soon it must be called again; 0: as usual.
func (m *Mirror) Refresh(ctx context.Context) time.Duration {
	if m.pinned() {
		return 0
	}
	unlock, err := m.lock(ctx)
	if err == nil {
		defer unlock()
		for _, u := range m.state.Units {
			if u.Moving { // a rename failed, or another process was killed
				m.verify(ctx)
				break
			}
		}
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
			"digest", m.state.Digest, "effect", "the copy is served as it is", "cache", m.home,
			"versions", m.state.versions(), "cause", shown{err})
	}
	m.offline = true
}

func (m *Mirror) tell(fetched, removed int) {
	m.log.Info("repository copied", "event", "repository_copied", "source", m.String(), "digest", m.state.Digest,
		"cache", m.home, "versions", m.state.versions(), "fetched", fetched, "removed", removed)
}

func (m *Mirror) tellFailed(unit string, err error) {
	m.log.Error("part of the repository not copied", "event", "repository_copy_failed", "source", m.String(), "unit", unit,
		"cause", shown{err})
}

// list asks the source, which need not heed the context.
func (m *Mirror) list(ctx context.Context, patience time.Duration) (l Listing, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %v", patience))
	defer cancel()
	source, digest, done := m.source, m.state.Digest, make(chan struct{})
	var answer Listing
	var fault error
	go func() {
		defer close(done)
		if source == nil {
			source, fault = m.dial(ctx)
		}
		if fault == nil {
			answer, fault = source.List(ctx, digest)
		}
	}()
	select {
	case <-done:
		m.source = source
		return answer, because(ctx, fault)
	case <-ctx.Done():
		return l, context.Cause(ctx)
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
	if err != nil {
		return err
	}
	temporary, err := os.MkdirTemp(m.home, fetching)
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	if l.Unpack != nil {
		if time.Now().Before(m.refused[l.Digest]) {
			return errors.New("its layers could not be used a moment ago")
		}
		inside, err := l.Unpack(ctx, filepath.Join(temporary, "unpacked"))
		if err != nil {
			m.refused[l.Digest] = time.Now().Add(refusedFor)
			return err
		}
		l.Objects = append(l.Objects, inside...)
	}
	units, err := m.layout(l.Objects)
	if err != nil {
		return err
	}
	if len(units) == 0 { // it could be another place, or its files could have been moved away for a moment
		return errors.New("it holds no model; expected <model>/<version>/model.onnx")
	}
	m.offline, m.state.Source, m.state.Digest = false, m.String(), l.Digest
	before := m.seen
	m.seen = map[string]string{}
	whole, unsettled, changed := true, false, map[string][]string{} // by their models
	for unit, objects := range units {
		mark := markOf(objects)
		m.seen[unit] = mark
		model, _, _ := strings.Cut(unit, "/")
		switch u := m.state.Units[unit]; {
		case u != nil && u.mark() == mark && !u.Moving:
		case time.Now().Before(m.refused[unit+mark]):
			whole = false
		case later && before[unit] != mark:
			whole, unsettled = false, true
		default:
			changed[model] = append(changed[model], unit)
		}
	}
	for unit := range m.state.Units {
		if _, is := units[unit]; !is {
			model, _, _ := strings.Cut(unit, "/")
			changed[model] = append(changed[model], unit)
		}
	}
	fetched, removed := 0, 0
	for _, model := range slices.Sorted(maps.Keys(changed)) {
		f, r, good := m.bring(ctx, temporary, changed[model], units)
		if fetched, removed, whole = fetched+f, removed+r, whole && good; ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if m.state.Whole = whole; fetched+removed > 0 || !later {
		m.tell(fetched, removed)
		err = m.save()
	}
	switch {
	case err != nil:
		return err
	case unsettled:
		return errUnsettled
	case m.state.versions() == 0:
		return errors.New("none of its versions could be fetched, for the causes in the log")
	}
	return nil
}

// bring fetches changed units of one model, and puts them into place: settings first, so that no version is there
// without them. A fault of the settings leaves all as it is; that of a version only that version.
func (m *Mirror) bring(ctx context.Context, temporary string, changed []string, units map[string][]Object,
) (fetched, removed int, good bool) {
	slices.SortFunc(changed, func(a, b string) int { return strings.Compare(rank(a), rank(b)) })
	good = true
	ready, order := map[string]map[string]File{}, []string{}
	for _, unit := range changed {
		objects, is := units[unit]
		if !is {
			order = append(order, unit)
			removed++
			continue
		}
		files, err := m.fetch(ctx, temporary, unit, objects)
		switch {
		case ctx.Err() != nil:
			return 0, 0, false
		case err != nil:
			m.refused[unit+markOf(objects)] = time.Now().Add(refusedFor)
			m.tellFailed(unit, err)
			if good = false; !isVersion(unit) {
				return 0, 0, false
			}
			continue
		}
		ready[unit], order = files, append(order, unit)
		fetched++
	}
	if err := m.place(temporary, order, ready); err != nil {
		m.tellFailed(changed[0], err)
		return 0, 0, false
	}
	return fetched, removed, good
}

func rank(unit string) string { return fmt.Sprint(isVersion(unit), unit) } // "false" comes first

// fetch copies the files of a unit into the temporary folder, and compares them with what the source declares.
func (m *Mirror) fetch(ctx context.Context, temporary, unit string, objects []Object) (map[string]File, error) {
	files, folder := map[string]File{}, filepath.Join(temporary, staged, unit)
	if !isVersion(unit) {
		folder = filepath.Dir(folder)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	for _, o := range objects {
		to := filepath.Join(temporary, staged, o.Path)
		err := os.MkdirAll(filepath.Dir(to), 0o755)
		if err == nil {
			files[o.Path], err = m.copy(ctx, o, to)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.Path, err)
		}
	}
	list := unit + "/" + modelfile.SumsName
	if _, is := files[list]; is {
		text, err := os.ReadFile(filepath.Join(temporary, staged, list))
		if err != nil {
			return nil, err
		}
		sums, err := modelfile.ParseSums(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", list, err)
		}
		for name, want := range sums {
			if f, is := files[unit+"/"+name]; is && f.SHA256 != hex.EncodeToString(want[:]) {
				return nil, fmt.Errorf("%s/%s has the SHA-256 %s, and %s lists %x", unit, name, f.SHA256, list, want)
			}
		}
	}
	return files, filepath.WalkDir(folder, syncEntry)
}

// copy copies one file to the disk.
func (m *Mirror) copy(ctx context.Context, o Object, to string) (File, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(coldPatience, func() { cancel(fmt.Errorf("nothing came for %v", coldPatience)) })
	defer stalled.Stop()
	from, err := m.source.Open(ctx, &o)
	if err != nil {
		return File{}, because(ctx, err)
	}
	defer from.Close()
	file, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return File{}, err
	}
	sha, md := sha256.New(), md5.New() //nolint:gosec // see above
	n, err := io.Copy(io.MultiWriter(file, sha, md), reading(func(p []byte) (int, error) {
		stalled.Reset(coldPatience)
		return from.Read(p)
	}))
	if err := errors.Join(because(ctx, err), fsync(file), file.Close()); err != nil {
		return File{}, err
	}
	f := File{Size: o.Size, Mark: o.Mark, SHA256: hex.EncodeToString(sha.Sum(nil))}
	switch {
	case n != o.Size:
		return f, fmt.Errorf("it has %d bytes, and %d were listed: it changes, or was cut off", n, o.Size)
	case o.SHA256 != "" && o.SHA256 != f.SHA256:
		return f, fmt.Errorf("it has the SHA-256 %s, and the source declares %s", f.SHA256, o.SHA256)
	case len(o.MD5) == md5.Size && !slices.Equal(o.MD5, md.Sum(nil)):
		return f, fmt.Errorf("it has the MD5 %x, and the source declares %x", md.Sum(nil), o.MD5)
	}
	return f, nil
}

type reading func([]byte) (int, error)

func (f reading) Read(p []byte) (int, error) { return f(p) }
