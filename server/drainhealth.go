package server

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/health"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/status"
	"github.com/weftserve/weft/sharedsched"
)

// watchFarewell is how long watchers of the health have, once the server leaves, to receive NOT_SERVING: the server may
// have retired just before.
const watchFarewell = 100 * time.Millisecond

// drainingHealth is grpc.health.v1 that shows models to callers who may know of them, with a Watch that ends when the
// server leaves: watchers stay for as long as there is a server, and a graceful stop would wait for them. Before that,
// while the server is retiring, they stay: a client of gRPC that watches sends its calls elsewhere as long as it hears
// NOT_SERVING, and would watch again at once.
type drainingHealth struct {
	*health.Server
	models  *modelHealth
	leaving <-chan struct{}
}

// noModel is a service that is never there: no model has such a name.
const noModel = "/"

// visible returns the service that a caller asks for, or one that is never there if it is a model that the caller may
// not know of.
func visible(ctx context.Context, service string) string {
	if !isModel(service) || access.CallerOf(ctx).Sees(service) {
		return service
	}
	return noModel
}

// Check implements healthgrpc.HealthServer.
func (h *drainingHealth) Check(
	ctx context.Context, req *healthgrpc.HealthCheckRequest,
) (*healthgrpc.HealthCheckResponse, error) {
	return h.Server.Check(ctx, &healthgrpc.HealthCheckRequest{Service: visible(ctx, req.GetService())})
}

// List implements healthgrpc.HealthServer. That of gRPC's fails where there are more than a hundred models, or were. It
// lists the models that the caller may know of.
func (h *drainingHealth) List(
	ctx context.Context, _ *healthgrpc.HealthListRequest,
) (*healthgrpc.HealthListResponse, error) {
	all := map[string]*healthgrpc.HealthCheckResponse{}
	for _, service := range h.models.services() {
		if visible(ctx, service) != service {
			continue
		}
		answer, err := h.Server.Check(ctx, &healthgrpc.HealthCheckRequest{Service: service})
		if err != nil {
			return nil, err
		}
		all[service] = answer
	}
	return &healthgrpc.HealthListResponse{Statuses: all}, nil
}

// Watch implements healthgrpc.HealthServer. A goroutine ends the call's context some time after the server began to
// leave, once the watcher could read NOT_SERVING; without that the call would last as long as its caller. Which models
// the caller may know of is decided once, when the call begins.
func (h *drainingHealth) Watch(req *healthgrpc.HealthCheckRequest, rpc healthgrpc.Health_WatchServer) error {
	req = &healthgrpc.HealthCheckRequest{Service: visible(rpc.Context(), req.GetService())}
	ctx, cancel := context.WithCancelCause(rpc.Context())
	defer cancel(nil)
	go func() {
		select {
		case <-h.leaving:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(watchFarewell):
			cancel(sharedsched.ErrDraining)
		case <-ctx.Done():
		}
	}()
	err := h.Server.Watch(req, &watch{Health_WatchServer: rpc, ctx: ctx})
	if cause := context.Cause(ctx); errors.Is(cause, sharedsched.ErrDraining) {
		return status.Fail(ctx, cause, predict.Place{})
	}
	return err
}

// watch is a Watch call with a context of its own.
type watch struct {
	healthgrpc.Health_WatchServer
	ctx context.Context //nolint:containedctx // gRPC's interface asks for it
}

// Context implements grpc.ServerStream.
func (w *watch) Context() context.Context { return w.ctx }
