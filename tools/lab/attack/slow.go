package main

import "context"

// idle does nothing more.
func idle(*link) (operation, error) {
	return func(context.Context) error { return nil }, nil
}

// slowHandshakes says nothing on one connection of three, and a byte at a time on the others.
func slowHandshakes(l *link) (operation, error) {
	// What begins a ClientHello of TLS 1.2: a record of 512 bytes, and in it a message of 508.
	hello := append([]byte{22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3}, make([]byte, 506)...)
	var words []byte
	switch l.number % 3 {
	case 1:
		words = []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	case 2:
		words = hello
	default:
	}
	return func(context.Context) error {
		if len(words) == 0 {
			return nil
		}
		err := l.out.WriteByte(words[0])
		words = words[1:]
		return err
	}, nil
}

const slowStreams = 64 // of each connection

// slowBodies sends the next byte of one call after the other.
func slowBodies(l *link) (operation, error) {
	message := framed(policyRequest())
	var streams []uint32
	for range slowStreams {
		stream, err := l.call(predictMethod)
		if err != nil {
			return nil, err
		}
		streams = append(streams, stream)
	}
	n := 0
	return func(context.Context) error {
		stream, at := streams[n%slowStreams], n/slowStreams
		if at >= len(message)-1 {
			return nil // only the last byte is missing
		}
		n++
		return l.send(stream, message[at:at+1], false)
	}, nil
}
