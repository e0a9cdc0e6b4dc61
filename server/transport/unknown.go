package transport

import (
	"google.golang.org/grpc"

	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/status"
)

// unknown answers calls of methods that no service has. gRPC would repeat the name as it came, however long it is.
func unknown(_ any, stream grpc.ServerStream) error {
	name := ""
	if call := grpc.ServerTransportStreamFromContext(stream.Context()); call != nil {
		name = call.Method()
	}
	return status.Fail(stream.Context(), &status.UnknownMethodError{Method: name}, predict.Place{})
}
