package cloud

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	fetching = "fetch-" // begins the names of what is not in its place yet
	staged   = "new"    // is the folder in it that units get their place from
)

// manifest is what is in the copy. It is written before and after anything gets its place.
type manifest struct {
	Source string           `json:"source"`
	Digest string           `json:"digest,omitempty"`
	Whole  bool             `json:"whole"` // the copy has all that was listed last
	Units  map[string]*unit `json:"units"`
}

// unit is what gets its place with one rename: the folder of a version, or a file beside versions. Its files are by
// path; nil: it is not there.
type unit struct {
	Files  map[string]File `json:"files"`
	Moving bool            `json:"moving,omitempty"` // the rename is about to happen, and Before may be there, or nothing
	Before map[string]File `json:"before,omitempty"`
}

// File is a file of the copy: how the source listed it, and the digest of its bytes.
type File struct {
	Size   int64  `json:"size"`
	Mark   string `json:"mark"`
	SHA256 string `json:"sha256"`
}

func (u *unit) mark() string {
	var mark strings.Builder
	for _, name := range slices.Sorted(maps.Keys(u.Files)) {
		fmt.Fprintln(&mark, name, u.Files[name].Size, u.Files[name].Mark)
	}
	return mark.String()
}

// markOf is the mark that a unit of these objects has.
func markOf(objects []Object) string {
	u := unit{Files: map[string]File{}}
	for _, o := range objects {
		u.Files[o.Path] = File{Size: o.Size, Mark: o.Mark}
	}
	return u.mark()
}

// versions counts those that are there.
func (s *manifest) versions() (n int) {
	for name := range s.Units {
		if isVersion(name) {
			n++
		}
	}
	return n
}

// lock keeps other processes from the copy, removes what one that was killed has left, and reads the manifest. One that
// cannot be read is as good as none: then everything is fetched again.
func (m *Mirror) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(m.Dir(), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(m.home, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for errors.Is(syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK) {
		select { // other errors: the file system knows no locks
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), file.Close())
		case <-time.After(50 * time.Millisecond):
		}
	}
	left, _ := filepath.Glob(filepath.Join(m.home, fetching+"*")) // the pattern is right
	for _, name := range left {
		_ = os.RemoveAll(name) // the next one tries again
	}
	m.state = manifest{}
	text, err := os.ReadFile(filepath.Join(m.home, "manifest.json"))
	if err == nil && json.Unmarshal(text, &m.state) != nil {
		m.state = manifest{}
	}
	if m.state.Units == nil {
		m.state.Units = map[string]*unit{}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, file.Close())
	}
	return func() { _ = file.Close() }, nil
}

func (m *Mirror) save() error {
	text, err := json.MarshalIndent(&m.state, "", " ")
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(m.home, fetching)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, fsync(file), file.Close()); err == nil {
		err = os.Rename(file.Name(), filepath.Join(m.home, "manifest.json"))
	}
	return errors.Join(err, syncFolder(m.home))
}

// place puts units from the temporary folder into place, in an order, and removes those that are not ready. A process
// that is killed meanwhile leaves each unit as before or as it is to be, and a manifest that knows both.
func (m *Mirror) place(temporary string, order []string, ready map[string]map[string]File) error {
	if len(order) == 0 {
		return nil
	}
	for _, name := range order {
		u := &unit{Files: ready[name], Moving: true}
		if before := m.state.Units[name]; before != nil {
			u.Before = before.Files
		}
		m.state.Units[name] = u
	}
	err := m.save()
	for _, name := range order {
		to := filepath.Join(m.Dir(), name)
		if err == nil {
			err = m.away(temporary, name)
		}
		if err == nil && ready[name] != nil {
			if err = os.MkdirAll(filepath.Dir(to), 0o755); err == nil {
				err = os.Rename(filepath.Join(temporary, staged, name), to)
			}
			err = errors.Join(err, syncFolder(filepath.Dir(to)))
		}
		if err != nil {
			return err
		}
		if m.state.Units[name] = (&unit{Files: ready[name]}); ready[name] == nil {
			delete(m.state.Units, name)
		}
	}
	return errors.Join(syncFolder(m.Dir()), m.save())
}

// away moves what is in the place of a unit out of the copy, and the folders above it that are empty then.
func (m *Mirror) away(temporary, name string) error {
	aside, err := os.MkdirTemp(temporary, "away-")
	if err != nil {
		return err
	}
	from := filepath.Join(m.Dir(), name)
	if err := os.Rename(from, filepath.Join(aside, "was")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for dir := filepath.Dir(from); dir != m.Dir() && os.Remove(dir) == nil; dir = filepath.Dir(dir) {
	}
	return nil
}

// verify compares the copy with the manifest, byte by byte, and takes out of it what differs: that is fetched again if
// the source answers. It reports whether all is as it should be.
func (m *Mirror) verify(ctx context.Context) (sound bool) {
	temporary, err := os.MkdirTemp(m.home, fetching)
	if err != nil {
		m.tellFailed("", err)
		return false
	}
	defer os.RemoveAll(temporary)
	present := m.present(ctx)
	if ctx.Err() != nil {
		return false
	}
	sound = true
	drop := func(name string) {
		sound = false
		delete(m.state.Units, name)
		if err := m.away(temporary, name); err != nil {
			m.tellFailed(name, err)
		}
	}
	for name := range present {
		if m.state.Units[name] == nil {
			drop(name) // nobody knows what it is
		}
	}
	damaged := map[string]bool{} // models without a part of their settings
	for name, u := range m.state.Units {
		fault := difference(u.Files, present[name])
		if fault != nil && u.Moving && difference(u.Before, present[name]) == nil {
			u.Files, sound, fault = u.Before, false, nil
		}
		if u.Moving, u.Before = false, nil; fault != nil {
			m.log.Error("copy of the repository damaged", "event", "repository_copy_damaged", "source", m.String(),
				"unit", name, "effect", "it is not served unless it can be fetched again", "cause", fault)
			if model, _, _ := strings.Cut(name, "/"); !isVersion(name) {
				damaged[model] = true
			}
			drop(name)
		} else if u.Files == nil {
			delete(m.state.Units, name)
		}
	}
	for name := range m.state.Units {
		if model, _, _ := strings.Cut(name, "/"); damaged[model] {
			drop(name) // it would be served with other settings
		}
	}
	if !sound {
		m.state.Whole = false
		if err := m.save(); err != nil {
			m.tellFailed("", err)
		}
	}
	return sound
}

// difference says in what the files of a unit that are there, with their digests, differ from those that should be.
func difference(want map[string]File, there map[string]string) error {
	if (want == nil) != (there == nil) || len(there) > len(want) {
		return fmt.Errorf("it has %d files, and %d were copied", len(there), len(want))
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got := there[name]; got != want[name].SHA256 {
			return fmt.Errorf("%s has the SHA-256 %q, and %s was copied", name, got, want[name].SHA256)
		}
	}
	return nil
}

// present lists what is in the copy: by unit, the paths of its files and their SHA-256, or why there is none.
func (m *Mirror) present(ctx context.Context) map[string]map[string]string {
	units, paths := map[string]map[string]string{}, []string{}
	// What cannot be read is missing.
	_ = fs.WalkDir(os.DirFS(m.Dir()), ".", func(at string, e fs.DirEntry, err error) error {
		unit := unitOf(at)
		switch {
		case err != nil || at == ".":
			return nil //nolint:nilerr // see above
		case strings.HasPrefix(at, ".") && e.IsDir():
			return fs.SkipDir // the state of the server
		case units[unit] == nil && (!e.IsDir() || isVersion(unit)):
			units[unit] = map[string]string{}
		}
		if !e.IsDir() {
			paths = append(paths, at)
		}
		return nil
	})
	digests, all := make([]string, len(paths)), errgroup.Group{}
	all.SetLimit(runtime.GOMAXPROCS(0))
	for i, at := range paths {
		all.Go(func() (err error) {
			if digests[i], err = m.digest(ctx, at); err != nil {
				digests[i] = err.Error()
			}
			return nil
		})
	}
	_ = all.Wait() // see digests
	for i, at := range paths {
		units[unitOf(at)][at] = digests[i]
	}
	return units
}

func (m *Mirror) digest(ctx context.Context, name string) (string, error) {
	if info, err := os.Lstat(filepath.Join(m.Dir(), name)); err != nil || !info.Mode().IsRegular() {
		return "", cmp.Or(err, errors.New("no regular file"))
	}
	file, err := os.Open(filepath.Join(m.Dir(), name))
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, reading(func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		return file.Read(p)
	}))
	return hex.EncodeToString(sum.Sum(nil)), err
}

// syncEntry brings the folders of a walk to the disk.
func syncEntry(at string, e fs.DirEntry, err error) error {
	if err != nil || !e.IsDir() {
		return err
	}
	return syncFolder(at)
}

var fsync = (*os.File).Sync // or of a test

func syncFolder(name string) error {
	folder, err := os.Open(name)
	if err != nil {
		return err
	}
	err = fsync(folder)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil // the file system knows no such thing of folders
	}
	return errors.Join(err, folder.Close())
}
