package record

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"
)

const (
	suffix     = ".weftrec"
	nameLayout = "20060102T150405.000000000Z" + suffix
)

// file has the methods of a file that the Writer needs, so that tests can make a disk fail.
type file interface {
	io.Writer
	// End keeps the first size bytes, which are safe from a failure of the machine when it returns nil, and closes the
	// file. A file of size 0 is removed.
	End(size int64) error
}

// creator makes a file that is not there yet. It is locked until it is ended, so that nobody takes it for an old one.
type creator func(name string) (file, error)

// diskFile is a file of the operating system.
type diskFile struct{ *os.File }

// createFile is the creator of files on disk.
func createFile(name string) (file, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		return nil, err // a nil *diskFile would be no nil file
	}
	_ = lock(f) // where there are no locks nothing is deleted either
	return &diskFile{f}, nil
}

// End implements file. It cuts off a torn entry first, and syncs the directory last, which has the file's name.
func (f *diskFile) End(size int64) error {
	if size == 0 {
		return errors.Join(f.Close(), os.Remove(f.Name()))
	}
	err := f.Truncate(size)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), syncDir(filepath.Dir(f.Name())))
}

// syncDir makes the names in a directory safe from a failure of the machine.
func syncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// create makes a file that is named for a moment, or for the next one that has no file yet. It returns the moment.
func create(open creator, dir string, at time.Time) (file, string, time.Time, error) {
	for {
		name := filepath.Join(dir, at.UTC().Format(nameLayout))
		f, err := open(name)
		if !errors.Is(err, os.ErrExist) {
			return f, name, at, err
		}
		at = at.Add(time.Nanosecond) // another process records into the same directory
	}
}

// Header holds the settings by which a file was recorded.
type Header struct {
	// Started is when the recording that the file belongs to began: it tells the recordings of one directory apart.
	Started time.Time `json:"started"`
	// Created is when the file was begun.
	Created time.Time `json:"created"`
	Inputs  Inputs    `json:"inputs"`
	// Sample is the part of the episodes, or of requests without one, that was to be recorded: above 0 up to 1.
	Sample float64 `json:"sample"`
	// Missed counts the entries that could not be recorded between Started and Created.
	Missed int64 `json:"missed,omitempty"`
}
