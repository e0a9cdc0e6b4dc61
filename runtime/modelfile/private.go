//go:build linux

package modelfile

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// maxMemory is the size in bytes up to which a copy lies in memory. A larger one would double what the version costs
// there: ONNX Runtime copies most weights.
const maxMemory = 64 << 20

// newCopy returns an empty file without a name, which has room for so many bytes.
func newCopy(size int64) (*os.File, error) {
	if size > maxMemory {
		if f, err := newUnnamed(size); err == nil {
			return f, nil
		} // there is no such directory, it cannot be written to or has no room
	}
	fd, err := unix.MemfdCreate("weft model", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	return os.NewFile(uintptr(fd), "weft model"), nil
}

// newUnnamed is newCopy on disk.
func newUnnamed(size int64) (*os.File, error) {
	fd, err := unix.Open(os.TempDir(), unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o400)
	if err != nil {
		return nil, err
	}
	if err := unix.Fallocate(fd, 0, 0, size); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "weft model"), nil
}

// seal returns the copy as a file that cannot be written to, and closes the one that could be.
func seal(f *os.File) (*os.File, error) {
	defer f.Close()
	const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE | unix.F_SEAL_SEAL
	_, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EPERM) { // that is no memory file
		return nil, fmt.Errorf("cannot seal the copy: %w", err)
	}
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
}
