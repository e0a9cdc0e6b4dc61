//go:build !linux

package guard

import "net"

// gone reports that the peer is there: no other system is asked.
func gone(net.Conn) bool { return false }
