package main

import (
	"bytes"
	"errors"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// dialEcho serves an echo, and returns a connection to it.
func dialEcho(t *testing.T, kind string) *grpc.ClientConn {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g, served := newEcho(kind), make(chan error, 1)
	go func() { served <- g.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		g.Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return conn
}

// ask sends a request of the policy and returns the bytes of both messages.
func ask(t *testing.T, kind string) (sent, came []byte, err error) {
	t.Helper()
	sent, err = proto.Marshal(&weftv1.PredictRequest{
		Inputs: map[string]*weftv1.Tensor{"x": {Raw: bytes.Repeat([]byte{7}, 1<<20)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	q, answer := &frame{mem.BufferSlice{mem.SliceBuffer(sent)}}, &frame{}
	err = dialEcho(t, kind).Invoke(t.Context(), weftv1.PredictionService_Predict_FullMethodName, q, answer,
		grpc.ForceCodecV2(frameCodec{CodecV2: encoding.GetCodecV2("proto")}))
	return sent, answer.data.Materialize(), err
}

func TestEchoes(t *testing.T) {
	for _, kind := range []string{echoBytes, echoZeroCopy} {
		if sent, came, err := ask(t, kind); err != nil || !bytes.Equal(came, sent) {
			t.Errorf("%s: %v; other bytes came back", kind, err)
		}
	}
	sent, came, err := ask(t, echoDecodes)
	var q weftv1.PredictRequest
	var answer weftv1.PredictResponse
	if err := errors.Join(err, proto.Unmarshal(sent, &q), proto.Unmarshal(came, &answer)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(answer.GetOutputs()["x"].GetRaw(), q.GetInputs()["x"].GetRaw()) {
		t.Error("the answer has another tensor")
	}
	if _, _, err := ask(t, echoRefusal); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("refused with %v", err)
	}
}

// TestEchoMetadata: a client learns which requests to make up, also from servers that keep bytes.
func TestEchoMetadata(t *testing.T) {
	for _, kind := range []string{echoBytes, echoDecodes, echoZeroCopy, echoRefusal} {
		about, err := weftv1.NewPredictionServiceClient(dialEcho(t, kind)).GetModelMetadata(t.Context(),
			&weftv1.GetModelMetadataRequest{Model: &weftv1.ModelSpec{Name: policyName}})
		if err != nil || about.GetSignature().GetInputs()[0].GetShape()[1] != 48 {
			t.Errorf("%s: %v, %v", kind, about, err)
		}
	}
}
