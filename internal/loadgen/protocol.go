package loadgen

import (
	"context"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// Protocol is the name of a protocol, as the flag has it.
type Protocol string

const (
	weft          Protocol = "weft"
	openInference Protocol = "open-inference"
)

// protocol is how a client asks a server. Requests are built, and read from files, as those of weft.v1, and translated.
type protocol interface {
	// service is the name of it that users know.
	service() string
	// predict is the method that requests are sent to.
	predict() string
	// about asks the server for the stream's model: its inputs, and the version that will answer, "" where the protocol
	// does not tell.
	about(ctx context.Context, conn grpc.ClientConnInterface, s *Stream) (*weftv1.Signature, string, error)
	// message is a request on the wire.
	message(q *weftv1.PredictRequest) (proto.Message, error)
	// answer is what codec reads an answer by.
	answer(into *reply) any
}

// spoken returns the implementation; the parser of flags lets no other name through.
func (p Protocol) spoken() protocol {
	if p == openInference {
		return inference{}
	}
	return native{}
}

// native is weft.v1.
type native struct{}

func (native) service() string { return "weft.v1" }

func (native) predict() string { return weftv1.PredictionService_Predict_FullMethodName }

// about implements protocol. It waits for the connection, and so makes it.
func (native) about(ctx context.Context, conn grpc.ClientConnInterface, s *Stream) (*weftv1.Signature, string, error) {
	m, err := weftv1.NewPredictionServiceClient(conn).GetModelMetadata(ctx,
		&weftv1.GetModelMetadataRequest{Model: s.spec()}, grpc.WaitForReady(true))
	return m.GetSignature(), strconv.FormatInt(m.GetModel().GetVersion(), 10), err
}

func (native) message(q *weftv1.PredictRequest) (proto.Message, error) { return q, nil }

// answer implements protocol: a reply reads a PredictResponse by itself.
func (native) answer(into *reply) any { return into }
