//go:build !linux

package protect

import (
	"net"
	"time"
)

// wrap returns the connection: no other system tells when bytes came.
func wrap(c net.Conn, _ time.Duration) net.Conn { return c }
