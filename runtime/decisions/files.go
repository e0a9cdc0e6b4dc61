package decisions

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// files are the operations that a Store needs of a file system. Tests have other implementations, which stop or fail at
// any step.
type files interface {
	// Mkdir makes a directory unless it is there; its parent must exist.
	Mkdir(dir string) error
	// Lock takes a lock that no other process has until Close. The error is errLocked if another has it. The lock ends
	// with the process.
	Lock(path string) (lock, error)
	List(dir string) (names []string, err error)
	// Read returns the content of a regular file of at most maxFile bytes.
	Read(path string) ([]byte, error)
	// Create makes an empty file, in the place of an existing one if there is one.
	Create(path string) (writer, error)
	Rename(from, to string) error
	Remove(path string) error
	// SyncDir makes lasting which files are in a directory.
	SyncDir(dir string) error
}

// writer is a file that is being written. Sync makes its content lasting.
type writer interface {
	io.WriteCloser
	Sync() error
}

// lock is a lock that is held.
type lock interface {
	io.Closer
	// Held returns ErrLost if the file at the path is not the locked one any more, so that another process may have a
	// lock there.
	Held() error
}

var errLocked = errors.New("another process holds the lock")

// disk is the real file system.
type disk struct{}

func (disk) Mkdir(dir string) error {
	if err := os.Mkdir(dir, 0o755); !errors.Is(err, os.ErrExist) {
		return err
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = &os.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
	}
	return err
}

func (disk) Lock(path string) (lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(errLocked, f.Close())
		}
		return nil, errors.Join(&os.PathError{Op: "lock", Path: path, Err: err}, f.Close())
	}
	return heldFile{f}, nil
}

// heldFile is a file that is locked while it is open.
type heldFile struct{ *os.File }

func (f heldFile) Held() error {
	mine, err := f.Stat()
	if err != nil {
		return err
	}
	there, err := os.Stat(f.Name())
	if errors.Is(err, os.ErrNotExist) || err == nil && !os.SameFile(mine, there) {
		return ErrLost
	}
	return err
}

func (disk) List(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (disk) Read(path string) ([]byte, error) {
	f, err := os.OpenFile(filepath.Clean(path), os.O_RDONLY|syscall.O_NONBLOCK, 0) // not to wait for a pipe
	if err != nil {
		return nil, err
	}
	defer f.Close() // it was only read
	switch info, err := f.Stat(); {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	case info.Size() > maxFile:
		return nil, fmt.Errorf("it has %d bytes, and this server writes at most %d", info.Size(), maxFile)
	}
	return io.ReadAll(io.LimitReader(f, maxFile))
}

func (disk) Create(path string) (writer, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
}

func (disk) Rename(from, to string) error { return os.Rename(from, to) }

func (disk) Remove(path string) error { return os.Remove(path) }

func (disk) SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
