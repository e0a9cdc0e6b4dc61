package guard

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// gone reports whether the peer has closed a connection of TCP, of which there may be bytes to read.
func gone(c net.Conn) bool {
	of, is := c.(syscall.Conn)
	if !is {
		return false
	}
	raw, err := of.SyscallConn()
	if err != nil {
		return false
	}
	closed := false
	err = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		closed = err == nil && info.State != unix.BPF_TCP_ESTABLISHED
	})
	return err == nil && closed
}
