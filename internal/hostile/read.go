package hostile

import (
	"bytes"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// headerBlock encodes header fields. All blocks of a connection share one table of earlier fields, as HPACK demands.
type headerBlock struct {
	text bytes.Buffer
	*hpack.Encoder
}

// reset begins with an empty table.
func (b *headerBlock) reset() { b.Encoder = hpack.NewEncoder(&b.text) }

// encode returns a block of fields. It is valid until the next call.
func (b *headerBlock) encode(fields []string) []byte {
	b.text.Reset()
	for i := 0; i+1 < len(fields); i += 2 {
		_ = b.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}) // writes to memory
	}
	return b.text.Bytes()
}

// read takes what the server sends until the connection ends. Frames are reused, so that each is taken before the next.
func (c *Conn) read() {
	defer close(c.ended)
	for {
		frame, err := c.framer.ReadFrame()
		c.mu.Lock()
		if err != nil {
			c.closed, c.fault = true, err.Error()
			c.change.Broadcast()
			c.mu.Unlock()
			return
		}
		c.takeLocked(frame)
		c.mu.Unlock()
	}
}

// takeLocked notes what a frame says, and wakes all that wait for a change. It ignores frames of calls that nobody
// expects. The caller holds mu.
func (c *Conn) takeLocked(frame http2.Frame) {
	id := frame.Header().StreamID
	a := c.calls[id]
	end := false
	switch f := frame.(type) {
	case *http2.MetaHeadersFrame:
		if a != nil {
			a.fields(f.Fields)
		}
		end = f.StreamEnded()
	case *http2.DataFrame:
		if a != nil {
			a.Data = append(a.Data, f.Data()...)
		}
		end = f.StreamEnded()
	case *http2.RSTStreamFrame:
		// A server may reset a stream without an error once it has answered, so that the caller stops sending.
		if a != nil && f.ErrCode != http2.ErrCodeNo {
			a.Reset = f.ErrCode.String()
		}
		end = true
	case *http2.PingFrame:
		c.acked = c.acked || f.IsAck()
	case *http2.WindowUpdateFrame:
		if id == 0 {
			c.credit += int64(f.Increment)
		}
	case *http2.GoAwayFrame:
		c.goAway = f.ErrCode.String() + " " + string(f.DebugData())
	}
	if end && a != nil {
		// The answer is complete: no later frame of the stream changes it.
		delete(c.calls, id)
		c.statuses[a.Status] = true
		c.done(a)
	}
	c.change.Broadcast()
}

// fields adds a block of header fields to an answer: its headers and its trailers come separately.
func (a *Answer) fields(all []hpack.HeaderField) {
	var b strings.Builder
	for _, f := range all {
		b.WriteString(f.Name + ": " + f.Value + "\n")
		switch f.Name {
		case "grpc-status":
			a.Status = f.Value
		case "grpc-message":
			a.Message = f.Value
		case "grpc-status-details-bin":
			a.Details = []byte(f.Value)
		}
	}
	a.Header += b.String()
}
