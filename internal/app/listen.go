package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"

	"github.com/weftserve/weft/internal/config"
)

// socketMode lets the server's user and group connect to a Unix socket. Without it the umask would decide.
const socketMode = 0o660

// listen opens an address, of TCP or of a Unix socket. flag is its setting, which the error names together with the
// address.
func listen(ctx context.Context, flag, address string) (net.Listener, error) {
	if path, is := config.Socket(address); is {
		l, err := listenUnix(ctx, path)
		if err != nil {
			return nil, fmt.Errorf("cannot listen on %s: %w; choose another path with --%s", address, err, flag)
		}
		return l, nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w; choose another address with --%s", address, causeOf(err), flag)
	}
	return l, nil
}

// causeOf returns what the system said, without the call and the address that package net puts before it: listen names
// these.
func causeOf(err error) error {
	if refused, ok := errors.AsType[*os.SyscallError](err); ok {
		return refused.Err
	}
	return err
}

// listenUnix opens a Unix socket. A socket that a dead server has left there is replaced.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, causeOf(err)
	}
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// removeStale removes a socket that nobody listens on, and nothing else. It tries a connection: only a refusal proves
// that the server is gone. Two servers that start at once may still both find it stale.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("there is a file that is no socket")
	}
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err == nil {
		return errors.Join(errors.New("another server listens there"), c.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("there is a socket that may be in use: %w", causeOf(err))
	}
	return os.Remove(path)
}

// addressOf returns the address of a listener in the form of its setting. A port of 0 has become the one that the
// system chose.
func addressOf(l net.Listener) string {
	if l.Addr().Network() == "unix" {
		return "unix:" + l.Addr().String()
	}
	return l.Addr().String()
}
