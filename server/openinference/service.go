// Package openinference serves the Open Inference Protocol, which clients of Triton and KServe speak, with Triton's
// extensions that have a meaning here. docs/reference/protocols.md lists what each call and parameter does.
//
// A prediction comes by gRPC or by HTTP. Both make the same request of it, and differ in how they read and write:
//   - By gRPC, request.Take decodes the message, but for its large values, which stay in the buffers of gRPC.
//   - By HTTP, web.Visit.ReadBody reads a body, and request.takeBody its JSON, but for the elements of inputs, which
//     stay in the body.
//   - request.fill reads the parameters and finds parts of shared memory. What is wrong becomes the request's Fault.
//   - Package transport has the pipeline predict, which calls request.Decode for each input and request.Encode for the
//     answer. Then it releases the request.
//   - By gRPC, the encoded answer is sent as it is. By HTTP, inferredOf takes it apart, and inferred.write makes JSON.
//
// The elements of an input are in one of four places: in the message (codec.go), in JSON (webdata.go), behind the JSON
// (webmessage.go), or in a region of shared memory (shared.go).
//
// What is large lies in memory that is used again (Calls.Memory), and has one owner at a time. A request owns its body
// and the copies of inputs until Release, and the outputs until Encode hands them to the answer. The sender of the
// answer frees that: gRPC, or inferred.write.
//
// The other calls are handlers of generated code. A page of HTTP (web.go, webpages.go) calls the handler of the call
// that it stands for.
package openinference

import (
	"context"
	"log/slog"

	"google.golang.org/grpc"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/status"
	"github.com/weftserve/weft/server/transport"
)

// Service implements the GRPCInferenceService of one listener.
type Service struct {
	inference.UnimplementedGRPCInferenceServiceServer
	*transport.Calls

	// Name and Version are the server's.
	Name, Version string
	// Ready reports whether the server serves its models, as health checks say.
	Ready func() bool
	// Statistics are of the models, whatever the protocol of their requests.
	Statistics *predict.Statistics
	// Repository changes which models are served; nil: nobody may change them on this listener.
	Repository Repository
	// Regions are those of shared memory; nil: there is none.
	Regions *Registry
	// Level is the level from which on the server logs. LogSettings changes it.
	Level *slog.LevelVar
	// Operated: calls that change something are answered on this listener. Others refuse them with a
	// *status.ElsewhereError.
	Operated bool
}

// Register registers the service.
func (s *Service) Register(g *grpc.Server) { inference.RegisterGRPCInferenceServiceServer(s.On(g), s) }

// NewRequest implements transport.Predicting. It returns a pooled request for ModelInfer, which transport then runs
// instead of a generated handler; nil: the method has a handler.
func (s *Service) NewRequest(method string) transport.Request {
	if method != "ModelInfer" {
		return nil
	}
	return newRequest(s, false)
}

// fail returns the error with which a call ends that is about no version.
func (s *Service) fail(ctx context.Context, err error) error {
	return s.Fail(ctx, err, predict.Place{})
}

// unsupported refuses what Weft does not have, and says what to use instead.
func (s *Service) unsupported(ctx context.Context, what, instead string) error {
	return s.fail(ctx, &status.UnsupportedError{What: what, Instead: instead})
}
