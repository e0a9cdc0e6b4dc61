//go:build linux

package worker

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// closeInherited closes the descriptors that a process has from the server but should not: all that are not closed by
// execve, but the standard ones. The server's own are closed by it; those that the server was started with may not be.
func closeInherited() {
	all, _ := os.ReadDir("/proc/self/fd") // without /proc there is nothing that could be done
	for _, entry := range all {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd <= unix.Stderr {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
}
