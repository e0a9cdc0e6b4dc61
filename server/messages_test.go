package server_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
)

// rawCodec sends bytes as they are.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// call sends bytes to a method, as the only message, and returns what it answers.
func (h *house) call(ctx context.Context, method string, message []byte, options ...grpc.CallOption) error {
	stream, err := h.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method, append(options, grpc.ForceCodecV2(rawCodec{}))...)
	if err != nil {
		return err
	}
	_, _ = stream.SendMsg(message), stream.CloseSend() // what came of it, the answer tells
	for {
		var answer []byte
		if err := stream.RecvMsg(&answer); err != nil {
			return err
		}
	}
}

// TestBrokenMessages: what is no message of the call is the caller's fault, in every call of every service.
func TestBrokenMessages(t *testing.T) {
	h := newHouse(t, server.Config{}, server.Transport{})
	whole, err := proto.Marshal(observation("a"))
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for name, service := range h.grpc.GetServiceInfo() {
		for _, method := range service.Methods {
			calls++
			err := h.call(t.Context(), "/"+name+"/"+method.Name, []byte{0xff, 0xff, 0xff})
			wantCode(t, err, codes.InvalidArgument, "the message is not a ")
		}
	}
	if calls < 12 {
		t.Errorf("%d calls were tried", calls)
	}
	for name, message := range map[string][]byte{
		"cut short":        whole[:len(whole)-1],
		"not UTF-8":        append(bytes.Clone(whole), 0x22, 1, 0xff), // request_id
		"another encoding": []byte(`{"model": {"name": "policy"}}`),
		"a wrong type":     {0x0a, 2, 0x08, 1, 0x0a}, // ends within the tag of a model
	} {
		err := h.call(t.Context(), weftv1.PredictionService_Predict_FullMethodName, message)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "the message is not a weft.v1.PredictRequest: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBrokenMessageEndsItsStream: what was accepted before is answered. Each counts as a request.
func TestBrokenMessageEndsItsStream(t *testing.T) {
	h := newHouse(t, server.Config{}, server.Transport{})
	stream, err := h.conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		weftv1.PredictionService_PredictStream_FullMethodName, grpc.ForceCodecV2(rawCodec{}))
	if err != nil {
		t.Fatal(err)
	}
	good, err := proto.Marshal(&weftv1.PredictStreamRequest{Request: observation("a")})
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range [][]byte{good, {0xff}} {
		if err := stream.SendMsg(message); err != nil {
			t.Fatal(err)
		}
	}
	var bytes []byte
	if err := stream.RecvMsg(&bytes); err != nil {
		t.Fatal(err)
	}
	answer := &weftv1.PredictStreamResponse{}
	if err := proto.Unmarshal(bytes, answer); err != nil || answer.GetResponse() == nil {
		t.Errorf("the first is answered with %v, %v", answer, err)
	}
	wantCode(t, stream.RecvMsg(&bytes), codes.InvalidArgument, "not a weft.v1.PredictStreamRequest")

	wantCode(t, h.call(t.Context(), weftv1.PredictionService_Predict_FullMethodName, []byte{0xff}), codes.InvalidArgument, "weft.v1.PredictRequest")
	h.mu.Lock()
	defer h.mu.Unlock()
	var got []string
	for _, e := range h.events {
		got = append(got, fmt.Sprintf("%s of %q, stream %v", e.Code, e.Model, e.Stream))
	}
	slices.Sort(got)
	want := `[InvalidArgument of "", stream false InvalidArgument of "", stream true OK of "policy", stream true]`
	if fmt.Sprint(got) != want {
		t.Errorf("counted %v\nwant %s", got, want)
	}
}

// TestLargeMessagesNameTheSetting in both directions, on streams, and where they are compressed.
func TestLargeMessagesNameTheSetting(t *testing.T) {
	const limit = 2000
	h := newHouse(t, server.Config{MaxMessageBytes: limit}, server.Transport{MaxMessageBytes: limit})
	request := observation("a")
	request.EpisodeId = strings.Repeat("e", 3000)
	size := proto.Size(request)

	_, err := h.predict.Predict(t.Context(), request)
	wantCode(t, err, codes.ResourceExhausted, fmt.Sprintf("the message takes %d bytes, of at most 2000; send fewer rows at a time, or raise --max-message-bytes", size))
	_, err = h.predict.Predict(t.Context(), request, grpc.UseCompressor(gzip.Name))
	wantCode(t, err, codes.ResourceExhausted, "the message takes more than 2000 bytes when it is decompressed, which is the most; send fewer rows at a time, or raise --max-message-bytes")

	stream, err := h.predict.PredictStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&weftv1.PredictStreamRequest{Request: request}); err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	wantCode(t, err, codes.ResourceExhausted, "--max-message-bytes")

	// Of exactly the limit it is taken, compressed or not.
	request.EpisodeId = strings.Repeat("e", 3000-size+limit)
	for ; proto.Size(request) > limit; request.EpisodeId = request.GetEpisodeId()[1:] {
	}
	if proto.Size(request) != limit {
		t.Fatalf("the request has %d bytes", proto.Size(request))
	}
	for _, options := range [][]grpc.CallOption{nil, {grpc.UseCompressor(gzip.Name)}} {
		_, err = h.predict.Predict(t.Context(), request, options...)
		wantCode(t, err, codes.InvalidArgument, "episode_id")
	}

	models := []*catalog.Model{{Name: strings.Repeat("m", limit)}}
	h.snapshot.Store(snapshotOf(2, models...))
	_, err = h.models.ListModels(t.Context(), &weftv1.ListModelsRequest{})
	wantCode(t, err, codes.ResourceExhausted, "; name one model, or raise --max-message-bytes")

	h.mu.Lock()
	defer h.mu.Unlock()
	counted := map[string]int{}
	for _, e := range h.events {
		counted[e.Code]++
	}
	if want := "map[InvalidArgument:2 ResourceExhausted:3]"; fmt.Sprint(counted) != want {
		t.Errorf("counted %v, want %s", counted, want)
	}
}

// TestNoMessage: a call of one message that brings none.
func TestNoMessage(t *testing.T) {
	h := newHouse(t, server.Config{}, server.Transport{})
	stream, err := h.conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, weftv1.PredictionService_Predict_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	wantCode(t, stream.RecvMsg(&weftv1.PredictResponse{}), codes.InvalidArgument, "no message came")
}
