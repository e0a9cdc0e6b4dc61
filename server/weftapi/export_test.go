package weftapi

import (
	"context"
	"io"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/transport"
)

// NewRequest returns the request of a message.
func NewRequest(m *weftv1.PredictRequest) *predict.Request {
	data, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	c := &codec{api: &API{Calls: &transport.Calls{MaxMessageBytes: 1 << 30, Memory: mem.DefaultBufferPool()}}}
	if err := c.Take(mem.BufferSlice{mem.SliceBuffer(data)}); err != nil {
		panic(err)
	}
	return &c.Request
}

// ContentOf reads the files of an upload from messages.
func ContentOf(ctx context.Context, start *weftv1.UploadStart, receive func() (*weftv1.UploadVersionRequest, error),
) io.Reader {
	c := contentOf(ctx, receive)
	c.begin(start)
	return c
}
