package rooted

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// written asks for a read lease (fcntl(2)), which the kernel grants only while nobody has the file open for writing. It
// gives the lease back at once: programs that want to write wait for it.
func written(f *os.File) bool {
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	if err != nil {
		return errors.Is(err, unix.EAGAIN)
	}
	_, _ = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	return false
}
