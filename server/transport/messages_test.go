package transport_test

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
	"github.com/weftserve/weft/server/servertest"
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

// call sends bytes to a method, as the only message, and returns the call's error.
func call(ctx context.Context, h *servertest.House, method string, message []byte, options ...grpc.CallOption) error {
	stream, err := h.Conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method,
		append(options, grpc.ForceCodecV2(rawCodec{}))...)
	if err != nil {
		return err
	}
	_, _ = stream.SendMsg(message), stream.CloseSend() // the answer shows the result
	for {
		var answer []byte
		if err := stream.RecvMsg(&answer); err != nil {
			return err
		}
	}
}

// TestBrokenMessages: bytes that are no message of the call are the caller's fault, in every call of every service.
func TestBrokenMessages(t *testing.T) {
	h := servertest.New(t, server.Config{})
	whole, err := proto.Marshal(servertest.Observation("a"))
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for name, service := range h.GRPC.GetServiceInfo() {
		for _, method := range service.Methods {
			calls++
			err := call(t.Context(), h, "/"+name+"/"+method.Name, []byte{0xff, 0xff, 0xff})
			servertest.WantCode(t, err, codes.InvalidArgument, "the message is not a ")
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
		err := call(t.Context(), h, weftv1.PredictionService_Predict_FullMethodName, message)
		if status.Code(err) != codes.InvalidArgument ||
			!strings.Contains(err.Error(), "the message is not a weft.v1.PredictRequest: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBrokenMessageEndsItsStream: requests accepted before are answered. Each counts as a request.
func TestBrokenMessageEndsItsStream(t *testing.T) {
	h := servertest.New(t, server.Config{})
	stream, err := h.Conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		weftv1.PredictionService_PredictStream_FullMethodName, grpc.ForceCodecV2(rawCodec{}))
	if err != nil {
		t.Fatal(err)
	}
	good, err := proto.Marshal(&weftv1.PredictStreamRequest{Request: servertest.Observation("a")})
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
	servertest.WantCode(t, stream.RecvMsg(&bytes), codes.InvalidArgument, "not a weft.v1.PredictStreamRequest")

	servertest.WantCode(t, call(t.Context(), h, weftv1.PredictionService_Predict_FullMethodName, []byte{0xff}),
		codes.InvalidArgument, "weft.v1.PredictRequest")
	var got []string
	for _, e := range h.Events() {
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
	h := servertest.New(t, server.Config{MaxMessageBytes: limit})
	request := servertest.Observation("a")
	request.EpisodeId = strings.Repeat("e", 3000)
	size := proto.Size(request)

	_, err := h.Predictions.Predict(t.Context(), request)
	servertest.WantCode(t, err, codes.ResourceExhausted, fmt.Sprintf("the message takes %d bytes, of at most 2000; "+
		"send fewer rows at a time, or raise --max-message-bytes", size))
	_, err = h.Predictions.Predict(t.Context(), request, grpc.UseCompressor(gzip.Name))
	servertest.WantCode(t, err, codes.ResourceExhausted, "the message takes more than 2000 bytes when it is "+
		"decompressed, which is the most; send fewer rows at a time, or raise --max-message-bytes")

	stream, err := h.Predictions.PredictStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&weftv1.PredictStreamRequest{Request: request}); err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	servertest.WantCode(t, err, codes.ResourceExhausted, "--max-message-bytes")

	// A message of exactly the limit is accepted, compressed or not.
	request.EpisodeId = strings.Repeat("e", 3000-size+limit)
	for ; proto.Size(request) > limit; request.EpisodeId = request.GetEpisodeId()[1:] {
	}
	if proto.Size(request) != limit {
		t.Fatalf("the request has %d bytes", proto.Size(request))
	}
	for _, options := range [][]grpc.CallOption{nil, {grpc.UseCompressor(gzip.Name)}} {
		_, err = h.Predictions.Predict(t.Context(), request, options...)
		servertest.WantCode(t, err, codes.InvalidArgument, "episode_id")
	}

	models := []*catalog.Model{{Name: strings.Repeat("m", limit)}}
	h.Current.Store(servertest.SnapshotOf(2, models...))
	_, err = h.Catalog.ListModels(t.Context(), &weftv1.ListModelsRequest{})
	servertest.WantCode(t, err, codes.ResourceExhausted, "; name one model, or raise --max-message-bytes")

	counted := map[string]int{}
	for _, e := range h.Events() {
		counted[e.Code]++
	}
	if want := "map[InvalidArgument:2 ResourceExhausted:3]"; fmt.Sprint(counted) != want {
		t.Errorf("counted %v, want %s", counted, want)
	}
}

// TestNoMessage: a call of one message that brings none.
func TestNoMessage(t *testing.T) {
	h := servertest.New(t, server.Config{})
	stream, err := h.Conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true},
		weftv1.PredictionService_Predict_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	servertest.WantCode(t, stream.RecvMsg(&weftv1.PredictResponse{}), codes.InvalidArgument, "no message came")
}
