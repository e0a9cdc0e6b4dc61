//go:build !linux

package access

import "net"

// peerOf knows nobody: only Linux tells.
func peerOf(net.Conn) (uid, gid uint32, known bool) { return 0, 0, false }
