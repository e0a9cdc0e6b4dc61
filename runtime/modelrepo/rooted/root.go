// Package rooted opens what lies below a directory. Symbolic links there lead nowhere else but to stores, directories
// that are named beside it, such as the cache of a model hub.
package rooted

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Root is an os.Root from which links may also lead to stores.
type Root struct {
	*os.Root
	path   string
	stores []string
}

// Open opens a directory. Stores that are not there are passed over.
func Open(path string, stores []string) (*Root, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &Root{Root: root, path: path, stores: stores}, nil
}

// Open is os.Root.Open.
func (r *Root) Open(name string) (*os.File, error) { return r.OpenFile(name, os.O_RDONLY, 0) }

// OpenFile is os.Root.OpenFile; what a link leads to in a store is opened to be read only.
func (r *Root) OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return through(r, name, func(root *os.Root, name string) (*os.File, error) {
		if root != r.Root && flag&(os.O_WRONLY|os.O_RDWR|os.O_CREATE|os.O_TRUNC) != 0 {
			return nil, syscall.EROFS
		}
		return root.OpenFile(name, flag, perm)
	})
}

// Stat is os.Root.Stat.
func (r *Root) Stat(name string) (fs.FileInfo, error) { return through(r, name, (*os.Root).Stat) }

// OpenRoot is os.Root.OpenRoot. Links below may lead to the same stores.
func (r *Root) OpenRoot(name string) (*Root, error) {
	root, err := through(r, name, (*os.Root).OpenRoot)
	if err != nil {
		return nil, err
	}
	return &Root{Root: root, path: filepath.Join(r.path, name), stores: r.stores}, nil
}

// through has something done with a name, and if that leads out of the root and into a store, in the store: a root of
// its own sees to it that the way does not lead out of there, whatever changes meanwhile.
func through[T any](r *Root, name string, do func(*os.Root, string) (T, error)) (T, error) {
	found, err := do(r.Root, name)
	if err == nil || len(r.stores) == 0 || !filepath.IsLocal(name) || !escaped(err) {
		return found, err
	}
	full := filepath.Join(r.path, name)
	target, unclear := filepath.EvalSymlinks(full)
	if errors.Is(unclear, fs.ErrNotExist) { // in a directory that is there: the store is to say so
		target, unclear = filepath.EvalSymlinks(filepath.Dir(full))
		target = filepath.Join(target, filepath.Base(full))
	}
	if unclear != nil {
		return found, err
	}
	for _, store := range r.stores {
		store, unclear := filepath.Abs(store)
		if unclear == nil {
			store, unclear = filepath.EvalSymlinks(store)
		}
		if unclear != nil {
			continue
		}
		below, unclear := filepath.Rel(store, target)
		if unclear != nil || !filepath.IsLocal(below) {
			continue
		}
		root, unclear := os.OpenRoot(store)
		if unclear != nil {
			continue
		}
		found, err = do(root, below)
		return found, errors.Join(err, root.Close())
	}
	return found, err
}

// escaped reports whether an os.Root refused a name, and not the system.
func escaped(err error) bool {
	_, refused := errors.AsType[syscall.Errno](err)
	return !refused
}

// Written reports whether some process has an open file open for writing. It is false where that cannot be known: the
// file belongs to another user, or lies on a file system of other machines, such as NFS.
func Written(f *os.File) bool { return written(f) }

// Free returns how many bytes users may still write to the file system of an open file, as far as it tells.
func Free(f *os.File) (bytes int64, known bool) { return free(f) }
