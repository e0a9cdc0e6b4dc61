package server

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/tap"

	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/status"
)

// methods are those of a grpc.Server, such as /weft.v1.PredictionService/Predict, and whether their callers send any
// number of messages.
type methods map[string]bool

func methodsOf(g *grpc.Server) methods {
	all := methods{}
	for service, info := range g.GetServiceInfo() {
		for _, m := range info.Methods {
			all["/"+service+"/"+m.Name] = m.IsClientStream
		}
	}
	return all
}

// tap refuses, by their headers, calls of methods that no service has, and calls that there is no room for. gRPC
// would begin a handler for each, and repeat the name of the method as it came, however long it is.
func (m methods) tap(ctx context.Context, c *protect.Connections, call *tap.Info) (context.Context, error) {
	ctx, err := c.Tap(ctx, call.Header)
	if _, known := m[call.FullMethodName]; err == nil && !known {
		err = &status.UnknownMethodError{Method: call.FullMethodName}
	}
	if err != nil {
		return ctx, status.Of(err, predict.Place{}).Err()
	}
	return ctx, nil
}
