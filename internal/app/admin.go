package app

import (
	"context"
	"net"

	"google.golang.org/grpc"

	"github.com/weftserve/weft/internal/lifecycle"
	"github.com/weftserve/weft/server"
)

// adminPart serves the calls that change something. Those that wait for a version to load or to drain end with the
// drain of the server, which must have begun before this is stopped: only their answers are still on the way then.
func adminPart(l net.Listener, admin *server.Admin, options []grpc.ServerOption) lifecycle.Part {
	g := grpc.NewServer(options...)
	admin.Register(g)
	return lifecycle.Part{
		Name: "admin server",
		Run:  func() error { return g.Serve(l) },
		Stop: func(ctx context.Context) error {
			sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
			defer cancel()
			finished := context.AfterFunc(sending, g.Stop)
			g.GracefulStop()
			if !finished() {
				g.Stop() // is on its way
			}
			return nil
		},
	}
}
