package protect

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/mem"
)

// conn is a connection that asks the kernel with each read when the bytes came. One read goes on at a time: none of
// gRPC, net/http and TLS has more.
//
// It makes system calls that Go's scheduler does not see. Sockets do not block, so that it need not. A call that it
// sees wakes a thread of Go, which then looks every 20 microseconds what goes on. Where requests come one by one,
// that takes up to a quarter of the processor time.
type conn struct {
	*net.TCPConn
	stamp

	raw syscall.RawConn
	try func(fd uintptr) bool // reads once; false: there is nothing yet

	// Of the read that goes on:
	memory  mem.BufferPool // that takes the bytes, if there are any; nil: they go to into
	size    int
	into    []byte
	taken   *[]byte
	n       int
	fault   error
	header  unix.Msghdr
	vector  unix.Iovec
	control [64]byte // room for the time

	writing sync.Mutex
	put     func(fd uintptr) bool // writes once; false: there is no room

	// Of the write that goes on, guarded by writing:
	from    []byte
	written int
	unsent  error
}

// stamped returns a connection that notes times, or the connection itself if it is none of TCP or the kernel does not
// tell.
func stamped(c net.Conn, timeout time.Duration) net.Conn {
	tcp, is := c.(*net.TCPConn)
	if !is {
		return c
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return c
	}
	var unset error
	err = raw.Control(func(fd uintptr) {
		unset = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS_NEW, 1)
		if timeout > 0 { // gRPC sets it for connections of the type net.TCPConn only
			unset = errors.Join(unset, unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT,
				int(timeout.Milliseconds())))
		}
	})
	if err != nil || unset != nil {
		return c
	}
	w := &conn{TCPConn: tcp, raw: raw}
	w.try, w.put = w.read, w.write
	return w
}

// Read implements net.Conn.
func (c *conn) Read(into []byte) (int, error) {
	if len(into) == 0 {
		return 0, nil
	}
	c.memory, c.into = nil, into
	return c.finish()
}

// ReadOnReady reads up to size bytes into memory of the pool, which is taken only once there are bytes: by this method
// gRPC reads from idle connections without holding memory for them.
func (c *conn) ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error) {
	c.memory, c.size = pool, size
	n, err := c.finish()
	taken := c.taken
	c.taken = nil
	if taken != nil && n == 0 {
		pool.Put(taken)
		taken = nil
	}
	return taken, n, err
}

// Write implements net.Conn.
func (c *conn) Write(from []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.from, c.written, c.unsent = from, 0, nil
	var err error
	for c.written < len(from) && c.unsent == nil && err == nil {
		err = c.raw.Write(c.put)
	}
	c.from = nil
	if c.unsent != nil {
		err = &net.OpError{Op: "write", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: c.unsent}
	}
	return c.written, err
}

// write hands bytes to the kernel once. It reports false where that has no room. Go's poller calls it.
func (c *conn) write(fd uintptr) bool {
	rest := c.from[c.written:]
	n, _, fault := unix.RawSyscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(unsafe.SliceData(rest))),
		uintptr(len(rest)))
	switch fault {
	case 0:
		c.written += int(n)
	case unix.EINTR:
	case unix.EAGAIN:
		return false
	default:
		c.unsent = fault
	}
	return true
}

// finish reads until there is something. It waits in Go's poller, as net.Conn does, and so keeps its deadlines. What
// the read used is let go of, so that an idle connection holds on to nothing.
func (c *conn) finish() (int, error) {
	c.n, c.fault = 0, nil
	err := c.raw.Read(c.try)
	n, fault := c.n, c.fault
	c.memory, c.into = nil, nil
	c.vector.Base = nil
	switch {
	case err != nil: // closed, or its time is over
		return 0, err
	case fault != nil:
		return 0, &net.OpError{
			Op: "read", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: fault,
		}
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// read asks the kernel once, for bytes and the time at which the newest of them came. It reports false where there is
// nothing yet, and gives the memory back before the connection waits. Go's poller calls it.
func (c *conn) read(fd uintptr) bool {
	into := c.into
	if c.memory != nil {
		c.taken = c.memory.Get(c.size)
		into = *c.taken
	}
	c.vector = unix.Iovec{Base: unsafe.SliceData(into)}
	c.vector.SetLen(len(into))
	c.header = unix.Msghdr{Iov: &c.vector, Iovlen: 1, Control: &c.control[0]}
	c.header.SetControllen(len(c.control))
	n, _, fault := unix.RawSyscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&c.header)), 0)
	// A signal came, such as one that Go stops a goroutine with.
	for fault == unix.EINTR {
		n, _, fault = unix.RawSyscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&c.header)), 0)
	}
	if fault == 0 {
		c.n = int(n)
		c.came.Store(timeOf(c.control[:c.header.Controllen]))
		return true
	}
	if c.taken != nil {
		c.memory.Put(c.taken)
		c.taken = nil
	}
	if fault == unix.EAGAIN {
		return false
	}
	c.fault = fault
	return true
}

// timeOf reads the time of a control message, the only one that was asked for: two numbers of 64 bits, seconds and
// nanoseconds. It is 0 if the packets came before the kernel was asked to note times.
func timeOf(control []byte) int64 {
	if len(control) < unix.CmsgLen(16) {
		return 0
	}
	head := (*unix.Cmsghdr)(unsafe.Pointer(unsafe.SliceData(control)))
	if head.Level != unix.SOL_SOCKET || head.Type != unix.SO_TIMESTAMPNS_NEW {
		return 0
	}
	at := control[unix.CmsgLen(0):]
	return int64(binary.NativeEndian.Uint64(at))*int64(time.Second) + int64(binary.NativeEndian.Uint64(at[8:]))
}
