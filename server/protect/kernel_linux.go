package protect

import (
	"math"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// gone reports whether the peer has closed a connection of TCP. There may still be bytes to read.
func gone(c net.Conn) bool {
	closed := false
	OnSocket(c, func(fd int) {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		closed = err == nil && info.State != unix.BPF_TCP_ESTABLISHED
	})
	return closed
}

// taken returns how many of the bytes that were written to a connection have arrived at its peer's machine, as far as
// that is known, and how many have not. Of a socket of this machine those have that were read.
func taken(c net.Conn) (arrived, underWay int64) {
	// It stays so where the socket is none of TCP, or the kernel does not tell.
	arrived = math.MaxInt64
	OnSocket(c, func(fd int) {
		if n, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ); err == nil {
			underWay = int64(n)
		}
		if info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			arrived = int64(info.Bytes_acked)
		}
	})
	return arrived, underWay
}

// descriptors returns how many this process may have.
func descriptors() int64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return math.MaxInt64
	}
	return int64(min(limit.Cur, math.MaxInt64))
}

// OnSocket asks the system about a connection, unless that is closed or none of the system's.
func OnSocket(c net.Conn, what func(fd int)) {
	if of, is := within[syscall.Conn](c); is {
		if raw, err := of.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { what(int(fd)) }) // it fails for one that is closed
		}
	}
}
