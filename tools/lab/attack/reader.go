package main

import (
	"errors"
	"net"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// read takes note of what the server sends, until the connection ends. It answers nothing, so that it never waits for a
// server that does not read.
func (l *link) read() {
	defer close(l.gone)
	l.frames.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		frame, err := l.frames.ReadFrame()
		if err != nil {
			if _, is := err.(http2.StreamError); is { //nolint:errorlint // the framer does not wrap it
				continue
			}
			if l.ctx.Err() == nil {
				l.tally.note(&l.tally.Ends, endOf(err))
			}
			return
		}
		switch f := frame.(type) {
		case *http2.WindowUpdateFrame:
			if f.StreamID == 0 {
				l.credit.add(int(f.Increment))
			}
		case *http2.GoAwayFrame:
			l.tally.note(&l.tally.GoAways, goAway(f))
		case *http2.RSTStreamFrame:
			l.tally.note(&l.tally.Resets, f.ErrCode.String())
		case *http2.MetaHeadersFrame:
			for _, field := range f.Fields {
				if field.Name == "grpc-status" {
					l.tally.note(&l.tally.Statuses, statusName(field.Value))
				}
			}
		default:
		}
	}
}

// endOf says how a connection ended, without its addresses.
func endOf(err error) string {
	if e, is := errors.AsType[*net.OpError](err); is {
		err = e.Err
	}
	return err.Error()
}

func goAway(f *http2.GoAwayFrame) string {
	if text := string(f.DebugData()); text != "" {
		return f.ErrCode.String() + " " + text
	}
	return f.ErrCode.String()
}

// lastWords reads what the server said before it ended a connection that nobody read.
func (l *link) lastWords() {
	const patience = 200 * time.Millisecond
	if l.conn.SetReadDeadline(time.Now().Add(patience)) == nil {
		l.read()
	}
}
