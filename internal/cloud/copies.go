package cloud

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // services declare it, and it finds accidents
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// What is served are links: models/MODEL leads to a folder in models/.copies, which has all of the model and is not
// changed any more. So a model changes by one rename of its link, when all that it leads to is on the disk.
const (
	copiesDir = ".copies"
	listFile  = ".files.json" // of such a folder: its files, with their digests
	pinLink   = "pin"
)

// files are a model's, by their paths in its folder.
type files map[string]Object

// key changes when a file does.
func (f files) key() string { return keyOf(map[string]files{"": f}) }

func keyOf(models map[string]files) string {
	sum := sha256.New()
	for _, model := range slices.Sorted(maps.Keys(models)) {
		for _, at := range slices.Sorted(maps.Keys(models[model])) {
			sum.Write(fmt.Appendf(nil, "%q %q %d %q\n", model, at, models[model][at].Size, models[model][at].Mark))
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func unitOf(at string) string {
	unit, _, _ := strings.Cut(at, "/")
	return unit
}

// units are what is fetched as one: the folder of a version, or what lies beside versions by one name.
func (f files) units() map[string]files {
	units := map[string]files{}
	for at := range f {
		units[unitOf(at)] = files{}
	}
	for at, o := range f {
		units[unitOf(at)][at] = o
	}
	return units
}

// Dir is the directory of the copy.
func (m *Mirror) Dir() string { return filepath.Join(m.home, "models") }

func (m *Mirror) newFolder() (string, error) {
	return os.MkdirTemp(filepath.Join(m.Dir(), copiesDir), "")
}

// there lists the models of the copy, and the folders that are used. A model without files is none of ours.
func (m *Mirror) there() (models map[string]files, used map[string]bool, err error) {
	models, used = map[string]files{}, map[string]bool{}
	entries, err := os.ReadDir(m.Dir())
	for _, e := range entries {
		if hidden(e.Name()) {
			continue // such as the state of the server
		}
		f, text := files(nil), []byte(nil)
		to, fault := os.Readlink(filepath.Join(m.Dir(), e.Name()))
		if path.Dir(to) == copiesDir {
			text, fault = os.ReadFile(filepath.Join(m.Dir(), to, listFile))
		}
		if fault != nil && !errors.Is(fault, fs.ErrNotExist) && !errors.Is(fault, syscall.EINVAL) { // no link
			err = errors.Join(err, fault)
		}
		_ = json.Unmarshal(text, &f) // else there are no files
		models[e.Name()], used[path.Base(to)] = f, true
	}
	return models, used, err
}

// key is that of all that is there.
func (m *Mirror) key() string {
	there, _, _ := m.there() // who acts on it asks again, and hears of the error
	return keyOf(there)
}

// versions counts what is served.
func (m *Mirror) versions() int {
	found, _ := fs.Glob(os.DirFS(m.Dir()), "[^.]*/[1-9]*")
	return len(found)
}

// pinned reports whether there is nothing to ask the source for.
func (m *Mirror) pinned() bool { return m.digest != "" && m.pin == m.key() }

// savePin keeps what a tag was resolved to, and the key of all that it names, as the target of a link.
func (m *Mirror) savePin(digest, key string) error {
	m.digest, m.pin = digest, key
	link := filepath.Join(m.Dir(), copiesDir, pinLink)
	return errors.Join(os.Symlink(digest+" "+key, link), os.Rename(link, filepath.Join(m.home, pinLink)),
		syncFolder(m.home))
}

// lock keeps other processes from the copy.
func (m *Mirror) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Join(m.Dir(), copiesDir), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(m.home, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	const try = syscall.LOCK_EX | syscall.LOCK_NB
	for i := 0; errors.Is(syscall.Flock(int(file.Fd()), try), syscall.EWOULDBLOCK); i++ {
		if i == 0 { // other errors: the file system knows no locks
			m.Log.Info("copy of the repository locked", "event", "repository_locked", "source", m.String(), "cache", m.home)
		}
		if pause(ctx, 50*time.Millisecond); ctx.Err() != nil {
			return nil, errors.Join(context.Cause(ctx), file.Close())
		}
	}
	m.sweep()
	pin, _ := os.Readlink(filepath.Join(m.home, pinLink)) // without it the tag is resolved again
	m.digest, m.pin, _ = strings.Cut(pin, " ")
	return func() {
		m.sweep()
		_ = file.Close() // it was only locked
	}, nil
}

func pause(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}

// sweep removes the folders that no link leads to, such as of a process that was killed.
func (m *Mirror) sweep() {
	_, used, err := m.there()
	entries, _ := os.ReadDir(filepath.Join(m.Dir(), copiesDir))
	for _, e := range entries {
		if err == nil && !used[e.Name()] {
			_ = os.RemoveAll(filepath.Join(m.Dir(), copiesDir, e.Name())) // the next one tries again
		}
	}
}

// place has a model lead to a folder, to which it adds what the model has already. Without files the model goes.
func (m *Mirror) place(model, folder string, f files) error {
	at := filepath.Join(m.Dir(), model)
	if len(f) == 0 {
		return errors.Join(os.RemoveAll(at), syncFolder(m.Dir()))
	}
	var err error
	for name := range f {
		to := filepath.Join(folder, name)
		if _, missing := os.Lstat(to); missing != nil {
			err = errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755), os.Link(filepath.Join(at, name), to))
		}
	}
	text, fault := json.MarshalIndent(f, "", " ")
	_, wrong := create(filepath.Join(folder, listFile), bytes.NewReader(text))
	if err = errors.Join(err, fault, wrong, os.Chmod(folder, 0o755)); err == nil {
		err = filepath.WalkDir(folder, func(at string, e fs.DirEntry, err error) error {
			if err != nil || !e.IsDir() {
				return err
			}
			return syncFolder(at)
		})
	}
	link := folder + "-link"
	if err = errors.Join(err, syncFolder(filepath.Dir(folder))); err == nil {
		err = errors.Join(os.Symlink(path.Join(copiesDir, filepath.Base(folder)), link), os.Rename(link, at))
	}
	return errors.Join(err, syncFolder(m.Dir()))
}

// verify compares the copy with its digests, byte by byte, and takes out of it what differs: that is fetched again if
// the source answers. A model whose settings differ goes: it would be served with others. What cannot be read stays.
func (m *Mirror) verify(ctx context.Context) error {
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	there, _, err := m.there()
	for model, want := range there {
		if err == nil {
			err = m.verifyModel(ctx, model, want)
		}
	}
	return err
}

func (m *Mirror) verifyModel(ctx context.Context, model string, want files) error {
	next, got, dir := maps.Clone(want), map[string]string{}, filepath.Join(m.Dir(), model)
	for at := range want {
		got[at] = "none, it is missing"
	}
	err := fs.WalkDir(os.DirFS(dir), ".", func(at string, e fs.DirEntry, err error) error {
		if want == nil {
			got[at] = "none, it was not copied here"
			return fs.SkipAll
		}
		if err == nil && !e.IsDir() && at != listFile {
			got[at], err = digest(filepath.Join(dir, at), e)
		}
		return errors.Join(err, ctx.Err())
	})
	maps.DeleteFunc(got, func(at, sum string) bool { return sum == want[at].SHA256 })
	if err != nil || len(got) == 0 {
		return err
	}
	for at, sum := range got {
		m.Log.Error("copy of the repository damaged", "event", "repository_copy_damaged", "source", m.String(),
			"unit", model+"/"+unitOf(at), "effect", "it is not served unless it can be fetched again",
			"cause", fmt.Sprintf("%s has the SHA-256 %q, and %q was copied", at, sum, want[at].SHA256))
		maps.DeleteFunc(next, func(other string, _ Object) bool {
			return unitOf(other) == unitOf(at) || !versionNumber.MatchString(unitOf(at))
		})
	}
	folder, err := m.newFolder()
	if err != nil {
		return err
	}
	return m.place(model, folder, next)
}

// digest returns the SHA-256 of a file.
func digest(name string, e fs.DirEntry) (string, error) {
	if !e.Type().IsRegular() {
		return "none, it is no regular file", nil
	}
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	return hex.EncodeToString(sum.Sum(nil)), err
}

// copy copies a file to the disk, compares it with what the source declares, and notes its SHA-256.
func (m *Mirror) copy(ctx context.Context, o *Object, to string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(coldPatience, func() { cancel(fmt.Errorf("nothing came for %v", coldPatience)) })
	defer stalled.Stop()
	from, err := m.source.Open(ctx, o)
	if err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	defer from.Close()
	sha, md := sha256.New(), md5.New() //nolint:gosec // see above
	n, err := create(to, io.TeeReader(reading(func(p []byte) (int, error) {
		stalled.Reset(coldPatience)
		return from.Read(p)
	}), io.MultiWriter(sha, md)))
	declared := o.SHA256
	o.SHA256 = hex.EncodeToString(sha.Sum(nil))
	switch {
	case err != nil:
		return errors.Join(context.Cause(ctx), err)
	case n != o.Size:
		return fmt.Errorf("it has %d bytes, and %d were listed: it changes, or was cut off", n, o.Size)
	case declared != "" && declared != o.SHA256:
		return fmt.Errorf("it has the SHA-256 %s, and the source declares %s", o.SHA256, declared)
	case len(o.MD5) == md5.Size && !slices.Equal(o.MD5, md.Sum(nil)):
		return fmt.Errorf("it has the MD5 %x, and the source declares %x", md.Sum(nil), o.MD5)
	}
	return nil
}

// create makes a file, and brings it to the disk.
func create(name string, from io.Reader) (n int64, err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return 0, err
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	n, err = io.Copy(file, from)
	return n, errors.Join(err, fsync(file), file.Close())
}

type reading func([]byte) (int, error)

func (f reading) Read(p []byte) (int, error) { return f(p) }

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
