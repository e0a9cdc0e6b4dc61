//go:build linux

package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/runtime/engine"
)

// socketFile is where a worker finds its socket: the first file after the standard ones.
const socketFile = 3

// Serve is the main function of a worker. It returns when the server has closed its end of the socket, or is dead.
func Serve(e Engine) error {
	// A core file of all mapped memory would take seconds in which nobody learns of the death.
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	unix.CloseOnExec(socketFile)
	closeInherited()
	socket := os.NewFile(socketFile, "server")
	if socket == nil {
		return errors.New("a worker is started by a server, not by hand")
	}
	c, err := newConn(socket, maxRequest, maxFiles, maxAnswer)
	if err != nil {
		return fmt.Errorf("a worker is started by a server, not by hand: %w", err)
	}
	begin, _, err := c.receive()
	if errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) {
		return nil
	}
	if err != nil {
		return err
	}
	child := &child{
		conn: c, engine: e, log: newLogger(os.Stderr), sessions: map[uint32]*held{}, lanes: map[uint32]*servedLane{},
		opening: map[uint32]chan struct{}{}, slabs: newSlabTable(),
	}
	hello := &message{Kind: helloMessage, ID: protocol, Fault: faultOf(e.Load())}
	if begin.Sandbox != nil {
		hello.Confined = new(begin.Sandbox.Apply()) // after the library, which may need more than models do
	}
	if err := c.send(hello); err != nil {
		return err
	}
	for {
		m, files, err := c.receive()
		if errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := child.handle(m, files); err != nil {
			return err
		}
	}
}

// child is the worker's side: sessions, lanes and slabs by their numbers.
type child struct {
	conn   *conn
	engine Engine
	log    *slog.Logger
	slabs  *slabTable
	shared atomic.Bool // there is more than one lane

	mu       sync.Mutex
	sessions map[uint32]*held         // guarded by mu
	opening  map[uint32]chan struct{} // guarded by mu; closed when the opening of a session is over
	lanes    map[uint32]*servedLane   // guarded by mu
}

// held is a session that is open.
type held struct {
	engine.Session
	inputs, outputs int
	pin             func(memory []byte) (unpin func())
}

// handle carries out a message. Openings and closings take their time, in goroutines of their own. It owns the files.
func (c *child) handle(m *message, files []int) error {
	switch m.Kind {
	case openMessage:
		if len(files) > 1 {
			closeAll(files)
			return errors.New("a model has one file")
		}
		c.mu.Lock()
		over := make(chan struct{})
		c.opening[m.ID] = over
		c.mu.Unlock()
		go func() {
			c.open(m, files)
			c.mu.Lock()
			delete(c.opening, m.ID)
			c.mu.Unlock()
			close(over)
		}()
	case closeMessage:
		go c.close(m)
	case laneMessage:
		if len(files) != 2 {
			closeAll(files)
			return errors.New("a lane needs two files")
		}
		return c.addLane(m.ID, files[0], files[1])
	case mapMessage:
		if len(files) != 1 {
			closeAll(files)
			return errors.New("a slab needs a file")
		}
		return c.slabs.add(m.ID, files[0], m.Size)
	case unmapMessage:
		go c.slabs.remove(m.ID) // to give back page-locked memory may wait for the device
	case stopMessage:
		c.mu.Lock()
		l := c.lanes[m.ID]
		c.mu.Unlock()
		if l != nil {
			l.stop(m.Size)
		}
	case pingMessage:
		return c.conn.send(&message{Kind: pongMessage})
	default:
		closeAll(files)
		return fmt.Errorf("a message of the unknown kind %q", m.Kind)
	}
	return nil
}

func (c *child) open(m *message, files []int) {
	answer := &message{Kind: openedMessage, ID: m.ID}
	var file *os.File
	if len(files) > 0 {
		file = os.NewFile(uintptr(files[0]), "model")
	}
	o, err := c.engine.Open(context.Background(), m.Model, file, c.log)
	if err == nil {
		sig := o.Session.Signature()
		c.mu.Lock()
		c.sessions[m.ID] = &held{o.Session, sig.MostInputs(), len(sig.Outputs), o.Pin}
		c.mu.Unlock()
		answer.Opened = &opened{
			Signature: sig, Device: o.Device, Provider: o.Provider, Notes: o.Notes, Stats: o.Session.Stats(),
		}
	}
	answer.Fault = faultOf(err)
	// A server that cannot be written to is dead, which receive says too.
	if long, is := errors.AsType[*tooLongError](c.conn.send(answer)); is {
		err = fmt.Errorf("its inputs and outputs take %d bytes to describe, at most %d can be served: give them shorter "+
			"names, or join some of them", long.bytes, long.most)
		_ = c.conn.send(&message{Kind: openedMessage, ID: m.ID, Fault: faultOf(err)})
	}
}

func (c *child) close(m *message) {
	c.mu.Lock()
	over := c.opening[m.ID]
	c.mu.Unlock()
	if over != nil {
		<-over // the server may have given it up before it was open
	}
	c.mu.Lock()
	s := c.sessions[m.ID]
	delete(c.sessions, m.ID)
	c.mu.Unlock()
	var err error
	if s != nil {
		err = s.Close()
	}
	_ = c.conn.send(&message{Kind: closedMessage, ID: m.ID, Fault: faultOf(err)})
}

func (c *child) session(id uint32) *held {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions[id]
}
