package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/weftserve/weft/internal/onnxgraph"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/tools/lab/harness"
)

// The kinds of echo.
const (
	echoBytes    = "bytes echo"     // with gRPC's codec, whose messages are bytes
	echoDecodes  = "weft.v1 echo"   // with the generated code
	echoZeroCopy = "zero-copy echo" // bytes go back as they came
	echoRefusal  = "refusal"        // every call is refused, before its message is read
)

// echoCommand is a gRPC server that does nothing else: the least that a model server could be.
type echoCommand struct {
	Kind string `arg:""`
}

// Run serves until ctx ends.
func (c *echoCommand) Run(ctx context.Context, o harness.Output) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	g := newEcho(c.Kind)
	context.AfterFunc(ctx, g.Stop)
	ready := map[string]string{"event": "ready", "grpc": listener.Addr().String()}
	if err := json.NewEncoder(o.Err).Encode(ready); err != nil {
		return err
	}
	if err := g.Serve(listener); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

func newEcho(kind string) *grpc.Server {
	service := weftv1.PredictionService_ServiceDesc
	var options []grpc.ServerOption
	switch kind {
	case echoBytes:
		service.Methods = []grpc.MethodDesc{{MethodName: "Predict", Handler: echoOf[emptypb.Empty]}, service.Methods[1]}
	case echoZeroCopy:
		options = append(options, grpc.ForceServerCodecV2(frameCodec{encoding.GetCodecV2("proto")}))
		service.Methods = []grpc.MethodDesc{{MethodName: "Predict", Handler: echoOf[frame]}, service.Methods[1]}
	case echoRefusal:
		options = append(options, grpc.InTapHandle(refuse))
	default:
	}
	g := grpc.NewServer(options...)
	g.RegisterService(&service, echo{})
	return g
}

// echo is the service of the echoes.
type echo struct {
	weftv1.UnimplementedPredictionServiceServer
}

// GetModelMetadata tells the client what to send.
func (echo) GetModelMetadata(_ context.Context, q *weftv1.GetModelMetadataRequest,
) (*weftv1.GetModelMetadataResponse, error) {
	for _, m := range models() {
		if m.name == q.GetModel().GetName() {
			return &weftv1.GetModelMetadataResponse{
				Model: q.GetModel(),
				Signature: &weftv1.Signature{Inputs: []*weftv1.TensorSpec{{
					Name: onnxgraph.MLPInput, Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{-1, int64(m.width)},
					BatchDim: new(int32),
				}}},
			}, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "there is no model %q", q.GetModel().GetName())
}

// Predict answers what it was asked.
//
//nolint:unparam // gRPC has methods return an error
func (echo) Predict(_ context.Context, q *weftv1.PredictRequest) (*weftv1.PredictResponse, error) {
	return &weftv1.PredictResponse{Model: q.GetModel(), Outputs: q.GetInputs()}, nil
}

func refuse(ctx context.Context, call *tap.Info) (context.Context, error) {
	if strings.HasSuffix(call.FullMethodName, "/Predict") {
		return nil, status.Error(codes.ResourceExhausted, "refused")
	}
	return ctx, nil
}

// frame is a message whose bytes stay as they came.
type frame struct{ data mem.BufferSlice }

// echoOf is the method Predict of messages that are not looked into. One without fields keeps all bytes as unknown
// ones.
//
//nolint:revive // gRPC says where the context stands
func echoOf[message any](
	_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor,
) (any, error) {
	m := new(message)
	return m, decode(m)
}

// frameCodec leaves frames as they are, and has another codec do other messages.
type frameCodec struct{ encoding.CodecV2 }

// Marshal gives the bytes away.
func (c frameCodec) Marshal(v any) (mem.BufferSlice, error) {
	if f, is := v.(*frame); is {
		return f.data, nil
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal keeps the bytes.
func (c frameCodec) Unmarshal(data mem.BufferSlice, v any) error {
	f, is := v.(*frame)
	if !is {
		return c.CodecV2.Unmarshal(data, v)
	}
	data.Ref()
	f.data = data
	return nil
}
