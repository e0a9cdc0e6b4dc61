//go:build linux

package worker

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/runtime/worker/sandbox"
)

// protocol is the version of messages and lanes.
const protocol = 1

// kind says what a message is for.
type kind string

const (
	beginMessage  kind = "begin"  // to the worker, before all others: perhaps with a Sandbox
	helloMessage  kind = "hello"  // to the server: the answer, ID is the protocol; Confined says what is in force
	openMessage   kind = "open"   // to the worker: ID names the session, Model and a file say what to open
	openedMessage kind = "opened" // to the server: the answer, Opened or Fault
	closeMessage  kind = "close"  // to the worker: the session's runs have ended
	closedMessage kind = "closed" // to the server: the answer, perhaps with a Fault
	laneMessage   kind = "lane"   // to the worker: its file is the page
	mapMessage    kind = "map"    // to the worker: the file is slab ID, of Size bytes
	unmapMessage  kind = "unmap"  // to the worker: slab ID is not used any more
	stopMessage   kind = "stop"   // to the worker: stop the run of lane ID whose number is Size
)

// message is one control message.
type message struct {
	Kind     kind            `json:"kind"`
	ID       uint32          `json:"id,omitempty"`
	Size     uint64          `json:"size,omitempty"`
	Model    json.RawMessage `json:"model,omitempty"`
	Opened   *opened         `json:"opened,omitempty"`
	Fault    *fault          `json:"fault,omitempty"`
	Sandbox  *sandbox.Policy `json:"sandbox,omitempty"`
	Confined *sandbox.Report `json:"confined,omitempty"`
}

// opened describes a session that was opened, as engine.Opened does.
type opened struct {
	Signature *tensor.Signature `json:"signature"`
	Device    string            `json:"device"`
	Provider  string            `json:"provider"`
	Notes     []string          `json:"notes,omitempty"`
	Stats     engine.Stats      `json:"stats"`
}

// fault is an error with its kind.
type fault struct {
	Kind engine.Kind `json:"kind"`
	Text string      `json:"text"`
}

func faultOf(err error) *fault {
	if err == nil {
		return nil
	}
	return &fault{engine.KindOf(err), err.Error()}
}

func (f *fault) err() error {
	if f == nil {
		return nil
	}
	return &engine.Error{Kind: f.Kind, Err: &remoteError{f.Text}}
}

// remoteError is an error of the worker, of which the text is left.
type remoteError struct{ text string }

func (e *remoteError) Error() string { return e.text }

// maxMessage bounds the bytes of a message; the largest is the signature of a model.
const maxMessage = 64 << 20

// conn sends and receives messages over a stream socket. Files travel with the header of their message. Sending is
// safe for concurrent use.
type conn struct {
	socket *net.UnixConn

	sending sync.Mutex
}

// newConn takes over a connected socket.
func newConn(f *os.File) (*conn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	socket, is := c.(*net.UnixConn)
	if !is {
		return nil, fmt.Errorf("%s is no Unix socket", f.Name())
	}
	return &conn{socket: socket}, nil
}

const headerBytes = 8 // length of the body, number of files

// maxFiles bounds the files of a message.
const maxFiles = 3

func (c *conn) send(m *message, files ...int) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	var header [headerBytes]byte
	binary.LittleEndian.PutUint32(header[:], uint32(len(body)))
	binary.LittleEndian.PutUint32(header[4:], uint32(len(files)))
	var rights []byte
	if len(files) > 0 {
		rights = unix.UnixRights(files...)
	}
	c.sending.Lock()
	defer c.sending.Unlock()
	if _, _, err := c.socket.WriteMsgUnix(header[:], rights, nil); err != nil {
		return err
	}
	_, err = c.socket.Write(body)
	return err
}

// receive returns the next message, and its files, which the caller closes.
func (c *conn) receive() (m *message, files []int, err error) {
	defer func() {
		if err != nil {
			closeAll(files)
		}
	}()
	var header [headerBytes]byte
	room := make([]byte, unix.CmsgSpace(maxFiles*4))
	n, rights, _, _, err := c.socket.ReadMsgUnix(header[:], room)
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		return nil, nil, err
	}
	if files, err = filesOf(room[:rights]); err != nil {
		return nil, files, err
	}
	if _, err := io.ReadFull(c.socket, header[n:]); err != nil {
		return nil, files, err
	}
	length, count := binary.LittleEndian.Uint32(header[:]), binary.LittleEndian.Uint32(header[4:])
	if length > maxMessage || int(count) != len(files) {
		return nil, files, fmt.Errorf("a message of %d bytes with %d of %d files", length, len(files), count)
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(c.socket, body); err != nil {
		return nil, files, err
	}
	m = new(message)
	return m, files, json.Unmarshal(body, m)
}

func filesOf(rights []byte) (files []int, err error) {
	all, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, err
	}
	for i := range all {
		some, err := unix.ParseUnixRights(&all[i])
		if err != nil {
			return files, err
		}
		files = append(files, some...)
	}
	return files, nil
}

func closeAll(files []int) {
	for _, f := range files {
		_ = unix.Close(f)
	}
}
