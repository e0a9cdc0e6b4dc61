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
)

// files are a model's, by their paths in its folder.
type files map[string]Object

// key changes when a file does.
func (f files) key() string {
	sum := sha256.New()
	for _, at := range slices.Sorted(maps.Keys(f)) {
		sum.Write(fmt.Appendf(nil, "%q %d %q\n", at, f[at].Size, f[at].Mark))
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

// there lists the models that are served; one without files is none of ours.
func (m *Mirror) there() map[string]files {
	models := map[string]files{}
	entries, _ := os.ReadDir(m.Dir()) // lock has made it
	for _, e := range entries {
		if hidden(e.Name()) {
			continue // such as the state of the server
		}
		f := files{}
		to, _ := os.Readlink(filepath.Join(m.Dir(), e.Name()))
		text, _ := os.ReadFile(filepath.Join(m.Dir(), to, listFile))
		if path.Dir(to) != copiesDir || json.Unmarshal(text, &f) != nil {
			f = nil
		}
		models[e.Name()] = f
	}
	return models
}

// versions counts what is served.
func (m *Mirror) versions() (n int) {
	for _, f := range m.there() {
		for unit := range f.units() {
			if versionNumber.MatchString(unit) {
				n++
			}
		}
	}
	return n
}

// pin is what a tag was resolved to, and the key of all that is there.
type pin struct {
	Digest string `json:"digest"`
	Key    string `json:"key"`
}

func keyOf(models map[string]files) string {
	keys := map[string]string{}
	for model, f := range models {
		keys[model] = f.key()
	}
	return fmt.Sprint(keys)
}

// pinned reports whether there is nothing to ask the source for.
func (m *Mirror) pinned() bool { return m.pin.Digest != "" && m.pin.Key == keyOf(m.there()) }

func (m *Mirror) savePin(p pin) error {
	m.pin = p
	temporary := filepath.Join(m.Dir(), copiesDir, "pin")
	if err := write(temporary, p); err != nil {
		return err
	}
	return errors.Join(os.Rename(temporary, filepath.Join(m.home, "digest.json")), syncFolder(m.home))
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
	for errors.Is(syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK) {
		select { // other errors: the file system knows no locks
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), file.Close())
		case <-time.After(50 * time.Millisecond):
		}
	}
	m.sweep()
	m.pin = pin{}
	text, _ := os.ReadFile(filepath.Join(m.home, "digest.json"))
	_ = json.Unmarshal(text, &m.pin) // without it the tag is resolved again
	return func() {
		m.sweep()
		_ = file.Close() // it was only locked
	}, nil
}

// sweep removes the folders that no link leads to, such as of a process that was killed.
func (m *Mirror) sweep() {
	used := map[string]bool{}
	for model := range m.there() {
		to, _ := os.Readlink(filepath.Join(m.Dir(), model))
		used[path.Base(to)] = true
	}
	entries, _ := os.ReadDir(filepath.Join(m.Dir(), copiesDir))
	for _, e := range entries {
		if !used[e.Name()] {
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
	err = errors.Join(err, write(filepath.Join(folder, listFile), f), os.Chmod(folder, 0o755))
	if err == nil {
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

// verify compares the copy of a model with its digests, byte by byte, and takes out of it what differs: that is fetched
// again if the source answers. A model whose settings differ goes: it would be served with others.
func (m *Mirror) verify(ctx context.Context, model string, want files) error {
	next, got := maps.Clone(want), map[string]string{}
	for at := range want {
		got[at] = "none, it is missing"
	}
	dir, _ := filepath.EvalSymlinks(filepath.Join(m.Dir(), model))
	_ = fs.WalkDir(os.DirFS(dir), ".", func(at string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && at != listFile {
			got[at] = digest(filepath.Join(dir, at), e)
		}
		return ctx.Err() // what cannot be read is missing
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	sound := want != nil
	for at, sum := range got {
		if sum == want[at].SHA256 {
			continue
		}
		sound = false
		m.log.Error("copy of the repository damaged", "event", "repository_copy_damaged", "source", m.String(),
			"unit", model+"/"+unitOf(at), "effect", "it is not served unless it can be fetched again",
			"cause", fmt.Sprintf("%s has the SHA-256 %q, and %q was copied", at, sum, want[at].SHA256))
		maps.DeleteFunc(next, func(other string, _ Object) bool {
			return unitOf(other) == unitOf(at) || !versionNumber.MatchString(unitOf(at))
		})
	}
	if sound {
		return nil
	}
	folder, err := m.newFolder()
	if err == nil {
		err = m.place(model, folder, next)
	}
	return err
}

// digest returns the SHA-256 of a file, or why there is none.
func digest(name string, e fs.DirEntry) string {
	if !e.Type().IsRegular() {
		return "no regular file"
	}
	file, err := os.Open(name)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	sum := sha256.New()
	if _, err = io.Copy(sum, file); err != nil {
		return err.Error()
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// copy copies a file to the disk, compares it with what the source declares, and notes its SHA-256.
func (m *Mirror) copy(ctx context.Context, o *Object, to string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(coldPatience, func() { cancel(fmt.Errorf("nothing came for %v", coldPatience)) })
	defer stalled.Stop()
	from, err := m.source.Open(ctx, o)
	if err != nil {
		return because(ctx, err)
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
		return because(ctx, err)
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

func write(name string, what any) error {
	text, err := json.MarshalIndent(what, "", " ")
	if err == nil {
		_, err = create(name, bytes.NewReader(text))
	}
	return err
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
