//go:build linux

package worker

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/internal/owntime"
	"github.com/weftserve/weft/runtime/engine"
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
	laneMessage   kind = "lane"   // to the worker: its files are the page, and the event that wakes the server
	mapMessage    kind = "map"    // to the worker: the file is slab ID, of Size bytes
	unmapMessage  kind = "unmap"  // to the worker: slab ID is not used any more
	stopMessage   kind = "stop"   // to the worker: stop the run of lane ID whose number is Size
	pingMessage   kind = "ping"   // to the worker: does it live?
	pongMessage   kind = "pong"   // to the server: the answer
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
	text := strings.ToValidUTF8(f.Text[:min(len(f.Text), maxText)], "?")
	return &engine.Error{Kind: f.Kind, Err: &remoteError{text}}
}

// remoteError is an error of the worker: only its text is left.
type remoteError struct{ text string }

func (e *remoteError) Error() string { return e.text }

// The bytes that a message may have. The largest to a worker names the files of a model. The largest from one, whose
// word is not trusted, describes a model: that leaves 128 bytes for each of the inputs and outputs that a lane's page
// has room for. Files set no lower limit to their number or their names.
const (
	maxRequest = 64 << 20
	maxAnswer  = 2 << 20
)

// tooLongError says that a message has more bytes than the other side takes.
type tooLongError struct{ bytes, most int }

func (e *tooLongError) Error() string {
	return fmt.Sprintf("a message of %d bytes, at most %d are taken", e.bytes, e.most)
}

// maxText bounds the bytes that are kept of an error's text: some messages of ONNX Runtime, of 4 KiB each.
const maxText = 16 << 10

// conn sends and receives messages over a stream socket. Files travel with the header of their message. Sending is
// safe for concurrent use.
type conn struct {
	socket   *net.UnixConn
	takes    uint32        // bytes of a message that comes, at most
	files    int           // of a message that comes, at most; the kernel closes others before they have a number here
	gives    int           // bytes of a message that goes
	patience time.Duration // how long the other side may take to read a message; 0: any time
	clock    *owntime.Clock

	sending sync.Mutex
}

// newConn takes over a connected socket, for messages of at most so many bytes. Those that come have at most so many
// files.
func newConn(f *os.File, takes, files, gives int) (*conn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	socket, is := c.(*net.UnixConn)
	if !is {
		return nil, fmt.Errorf("%s is no Unix socket", f.Name())
	}
	return &conn{socket: socket, takes: uint32(takes), files: files, gives: gives}, nil
}

const headerBytes = 8 // length of the body, number of files

// maxFiles bounds the files of a message to a worker. A worker sends none.
const maxFiles = 2

func (c *conn) send(m *message, files ...int) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(body) > c.gives {
		return &tooLongError{len(body), c.gives}
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
	if c.patience > 0 {
		// The deadline of an earlier message, which was sent anyway, may still stand.
		_ = c.socket.SetWriteDeadline(time.Time{})
		late := c.clock.AfterFunc(c.patience, func() { _ = c.socket.SetWriteDeadline(time.Now()) }) // it may be closed
		defer late.Stop()
	}
	if _, _, err := c.socket.WriteMsgUnix(header[:], rights, nil); err != nil {
		return err
	}
	_, err = c.socket.Write(body)
	return err
}

// receive returns the next message, and its files, which the caller closes; none with an error.
func (c *conn) receive() (m *message, files []int, err error) {
	defer func() {
		if err != nil {
			closeAll(files)
			m, files = nil, nil
		}
	}()
	var header [headerBytes]byte
	var room []byte
	if c.files > 0 {
		room = make([]byte, unix.CmsgSpace(c.files*4))
	}
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
	if length > c.takes {
		return nil, files, &tooLongError{int(length), int(c.takes)}
	}
	if int64(count) != int64(len(files)) {
		return nil, files, fmt.Errorf("a message with %d of %d files", len(files), count)
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(c.socket, body); err != nil {
		return nil, files, err
	}
	m = new(message)
	if err := json.Unmarshal(body, m); err != nil {
		return nil, files, fmt.Errorf("%w: %.100q", err, body)
	}
	return m, files, nil
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
