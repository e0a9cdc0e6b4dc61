//go:build !linux

package protect

import (
	"net"
	"time"
)

// stamped returns the connection: no other system tells when bytes came.
func stamped(c net.Conn, _ time.Duration) net.Conn { return c }
