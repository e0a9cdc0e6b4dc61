package access

import (
	"net"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/server/protect"
)

// peerOf returns the user and the group of the process at the other end of a unix socket, as of when it connected.
func peerOf(c net.Conn) (uid, gid uint32, known bool) {
	if _, is := c.LocalAddr().(*net.UnixAddr); !is {
		return 0, 0, false
	}
	protect.OnSocket(c, func(fd int) {
		if cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			uid, gid, known = cred.Uid, cred.Gid, true
		}
	})
	return uid, gid, known
}
