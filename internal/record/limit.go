package record

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// limit bounds the size of all recordings in a directory together, also those of earlier processes and of other ones,
// by deleting the oldest. It deletes only regular files whose name and beginning are those of a recording, and that no
// process is writing.
type limit struct {
	dir     string
	bytes   int64 // that they may have when a file is begun; 0: no bound
	log     *slog.Logger
	deleted atomic.Int64 // files

	// due and mu let any number of goroutines ask; one of them deletes.
	due     atomic.Bool // keep was called since the bound was last looked at
	mu      sync.Mutex  // held while it is kept
	failing bool        // guarded by mu; when it was last tried, something could not be deleted
}

// errInUse says that another process, or this one, holds the lock of a file.
var errInUse = errors.New("it is being written")

// keep deletes the oldest files beyond the bound. If another goroutine is doing so, keep returns at once, and that
// goroutine does it once more.
func (l *limit) keep() {
	l.due.Store(true)
	for l.bytes > 0 && l.due.Load() && l.mu.TryLock() {
		l.due.Store(false)
		l.deleteOldest()
		l.mu.Unlock()
	}
}

// deleteOldest deletes the oldest files that are beyond the bound now. The caller holds l.mu.
func (l *limit) deleteOldest() {
	found, sum, err := l.find()
	if err != nil {
		l.failed(l.dir, err)
		return
	}
	failed := false
	for _, file := range found {
		if sum <= l.bytes {
			break
		}
		name := filepath.Join(l.dir, file.Name())
		switch err := deleteRecording(name); {
		case err == nil:
			sum -= file.Size()
			l.deleted.Add(1)
			l.log.Info("oldest recording deleted", "event", "recording_deleted", "file", name, "bytes", file.Size(),
				"cause", "the recordings in the folder reached their limit")
		case errors.Is(err, errMagic), errors.Is(err, fs.ErrNotExist):
			sum -= file.Size() // it is not ours, or another process was faster
		// A file that is being written counts in the sum, and the next oldest goes instead.
		case errors.Is(err, errInUse):
		default:
			l.failed(name, err)
			failed = true
		}
	}
	l.failing = failed
}

// find returns the files that are named as recordings, the oldest first, and the sum of their bytes.
func (l *limit) find() (found []fs.FileInfo, sum int64, err error) {
	entries, err := os.ReadDir(l.dir) // sorted by name, and so by time
	if err != nil {
		return nil, 0, err
	}
	for _, entry := range entries {
		if !entry.Type().IsRegular() || !isRecordingName(entry.Name()) {
			continue
		}
		if info, err := entry.Info(); err == nil { // else it has gone
			found = append(found, info)
			sum += info.Size()
		}
	}
	return found, sum, nil
}

// failed logs the first of several failures, since each file that is begun would repeat it. The caller holds l.mu.
func (l *limit) failed(name string, err error) {
	if !l.failing {
		l.failing = true
		l.log.Error("old recording not deleted", "event", "recording_delete_failed", "file", name,
			"effect", "the folder may grow beyond its limit", "cause", err)
	}
}

// isRecordingName reports whether the Writer could have chosen the name.
func isRecordingName(name string) bool {
	at, err := time.Parse(nameLayout, name)
	return err == nil && at.Format(nameLayout) == name
}

// deleteRecording deletes a file. It returns errMagic if it is not a recording of this format, and errInUse if it is
// being written. It follows no symbolic links.
func deleteRecording(name string) error {
	// some network file systems give locks only to processes that may write
	f, err := os.OpenFile(name, os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	start := make([]byte, preambleBytes)
	if _, err := io.ReadFull(f, start); err != nil || string(start) != string(preamble()) {
		return errMagic
	}
	if err := lock(f); err != nil {
		return err
	}
	return os.Remove(name)
}

// lock claims a file until it is closed, or returns errInUse at once. The operating system gives the lock up when the
// process ends, however it ends.
func lock(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var locking error
	err = conn.Control(func(fd uintptr) { locking = syscall.Flock(int(fd), syscall.LOCK_EX|syscall.LOCK_NB) })
	if err != nil {
		return err
	}
	if errors.Is(locking, syscall.EWOULDBLOCK) {
		return errInUse
	}
	if locking != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), locking)
	}
	return nil
}
