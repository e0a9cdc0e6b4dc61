package transport

import (
	"context"
	"log/slog"

	"google.golang.org/grpc"

	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/status"
)

// recovery turns a panic of a handler into an error of that one call. It logs as well as returns, because the caller
// must not see the server's internals.
type recovery struct{ log *slog.Logger }

func (r recovery) unary(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler,
) (_ any, err error) {
	defer func() {
		if caught := predict.Recovered(ctx, r.log, info.FullMethod, recover()); caught != nil {
			err = status.Of(caught, predict.Place{}).Err()
		}
	}()
	return next(ctx, req)
}

func (r recovery) stream(
	srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler,
) (err error) {
	defer func() {
		if caught := predict.Recovered(stream.Context(), r.log, info.FullMethod, recover()); caught != nil {
			err = status.Of(caught, predict.Place{}).Err()
		}
	}()
	return next(srv, stream)
}
