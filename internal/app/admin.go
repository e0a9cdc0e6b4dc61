package app

import (
	"context"
	"log/slog"
	"net"

	"google.golang.org/grpc"

	"github.com/weftserve/weft/internal/lifecycle"
	"github.com/weftserve/weft/server"
)

// adminPart serves the calls that change something. Those that wait for a version to load or to drain end with the
// drain of the server, which must have begun before this is stopped: only their answers are still on the way then.
func adminPart(l net.Listener, admin *server.Admin, options []grpc.ServerOption, log *slog.Logger) lifecycle.Part {
	if !isLoopback(l.Addr()) {
		log.Warn("ADMIN API OPEN TO THE NETWORK, WITHOUT AUTHENTICATION", "event", "admin_exposed",
			"admin", l.Addr().String(), "effect", "whoever reaches the address can unload models and move traffic",
			"remedy", "serve it on loopback, or let nobody but your own tools reach it")
	}
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

func isLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
