package config

import (
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
)

// socketPrefix begins the address of a Unix socket.
const socketPrefix = "unix:"

// maxSocketPath is how long the path of a socket may be, in bytes. Linux takes 107 and macOS 103, without the zero byte
// at the end: settings work on both.
const maxSocketPath = 103

// Socket returns the path of a Unix socket's address, such as unix:/run/weft.sock or, as gRPC writes it,
// unix:///run/weft.sock.
func Socket(address string) (path string, is bool) {
	path, is = strings.CutPrefix(address, socketPrefix)
	return strings.TrimPrefix(path, "//"), is
}

// isSocket is Socket for a caller that does not need the path.
func isSocket(address string) bool { return strings.HasPrefix(address, socketPrefix) }

// checkAddress refuses an address that cannot be listened on whatever the machine. Relative paths are refused: they
// would depend on the directory in which the server is started.
func checkAddress(faults *Faults, key, address string) {
	if path, is := Socket(address); is {
		switch {
		case !strings.HasPrefix(path, "/"):
			faults.Addf(key, "expected an absolute path such as unix:/run/weft/weft.sock, found %q", address)
		case len(path) > maxSocketPath:
			faults.Addf(key, "the path %s has %d bytes; the system takes at most %d for a socket: choose a shorter one",
				path, len(path), maxSocketPath)
		}
		return
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		faults.Addf(key, "expected HOST:PORT such as 127.0.0.1:9000 or [::1]:9000, or unix:/PATH, found %q", address)
	}
}

// Absolute returns where a path lies, for errors: one that a settings file has is relative to the working directory.
func Absolute(path string) string {
	if whole, err := filepath.Abs(path); err == nil {
		return whole
	}
	return path
}

// Local reports whether only this machine reaches an address: a Unix socket, or an address of loopback. Of names it
// accepts localhost only, because any other may resolve to an address of another machine. The port may be missing.
func Local(address string) bool {
	if isSocket(address) {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
