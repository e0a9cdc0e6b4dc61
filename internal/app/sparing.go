package app

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The descriptors that connections leave to the rest of the server: an eighth of all, within these bounds, but no more
// than a quarter. To start a process that runs models takes about twelve, of which it keeps four; each memory file of
// batches is one.
const (
	leastSpared = 32
	mostSpared  = 256
)

// sparing is the listeners whose connections leave descriptors to the rest of the server: else callers who hold
// connections keep a process that died from being started again. The kernel gives each file the lowest number that is
// free, so a connection has a high one where most are taken. It is then closed at once.
type sparing struct {
	log     *slog.Logger
	refused atomic.Uint64
	told    atomic.Int64 // the second of the latest record of the log
	untold  atomic.Uint64
}

// listen is the function of that name, for a listener that accepts no connection with such a number.
func (s *sparing) listen(ctx context.Context, flag, address string) (net.Listener, error) {
	l, err := listen(ctx, flag, address)
	if err != nil {
		return nil, err
	}
	return &sparingListener{l, s}, nil
}

type sparingListener struct {
	net.Listener

	sparing *sparing
}

// Accept implements net.Listener.
func (l *sparingListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil || numberOf(c) < spared() {
			return c, err
		}
		l.sparing.refuse(c)
	}
}

// refuse closes a connection that was accepted a moment ago.
func (s *sparing) refuse(c net.Conn) {
	s.refused.Add(1)
	if now := time.Now().Unix(); s.told.Swap(now) != now {
		s.log.Warn("connection ended", "event", "connection_ended", "peer", c.RemoteAddr().String(),
			"reason", reasonDescriptors, "held_bytes", 0, "not_logged", s.untold.Swap(0))
	} else {
		s.untold.Add(1)
	}
	_ = c.Close() // it has not begun
}

// reasonDescriptors is the reason of connections that were closed because they would have had the last descriptors.
const reasonDescriptors = "descriptors"

// spared returns the first number of a descriptor that no connection may have.
func spared() int64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 1 << 62
	}
	all := int64(min(limit.Cur, 1<<62))
	return all - min(max(all/8, leastSpared), mostSpared, all/4)
}

// numberOf returns the number of a connection's descriptor; -1 if it is not known.
func numberOf(c net.Conn) (number int64) {
	number = -1
	if has, is := c.(syscall.Conn); is {
		if raw, err := has.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { number = int64(fd) }) // it may be closed
		}
	}
	return number
}
