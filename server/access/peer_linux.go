package access

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// peerOf returns the user and the group of the process at the other end of a unix socket, as of when it connected.
func peerOf(c net.Conn) (uid, gid uint32, known bool) {
	// A connection that something else was put around may still lead to its socket.
	u, is := c.(syscall.Conn)
	if _, unix := c.LocalAddr().(*net.UnixAddr); !is || !unix {
		return 0, 0, false
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return 0, 0, false
	}
	var cred *unix.Ucred
	var unread error
	err = raw.Control(func(fd uintptr) { cred, unread = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err != nil || unread != nil {
		return 0, 0, false
	}
	return cred.Uid, cred.Gid, true
}
