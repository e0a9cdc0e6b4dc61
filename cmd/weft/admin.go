package main

import (
	"context"
	"log/slog"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"

	"github.com/weftserve/weft/internal/lifecycle"
	"github.com/weftserve/weft/server"
)

// adminPart serves the calls that change something.
func adminPart(l net.Listener, admin *server.Admin, options []grpc.ServerOption, log *slog.Logger) lifecycle.Part {
	if !isLoopback(l.Addr()) {
		log.Warn("WHOEVER REACHES THE ADMIN ADDRESS CAN UNLOAD MODELS AND MOVE TRAFFIC: there is no authentication; "+
			"serve it on loopback, or let nobody but your own tools reach it", "admin", l.Addr().String())
	}
	g := grpc.NewServer(options...)
	admin.Register(g)
	reflection.Register(g)
	return lifecycle.Part{
		Name: "admin server",
		Run:  func() error { return g.Serve(l) },
		Stop: func(context.Context) error {
			g.Stop() // its calls wait for versions to load or to drain, for which the end does not wait
			return nil
		},
	}
}

func isLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
