package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/lifecycle"
	"github.com/weftserve/weft/internal/telemetry"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/activity"
	"github.com/weftserve/weft/server/episode"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/rollout"
	"github.com/weftserve/weft/server/transport"
	"github.com/weftserve/weft/sharedsched"
)

// grpcOptions returns the options that all gRPC servers share. Received messages lie in memory. Answers have the bound
// of requests; by itself grpc would send up to 2 GiB.
func grpcOptions(s *config.Server, memory tensor.Memory) []grpc.ServerOption {
	return append(transport.Options(int(s.MaxMessageBytes), memory), grpc.MaxSendMsgSize(int(s.MaxMessageBytes)),
		transport.MaxConnectionAge(time.Duration(s.MaxConnectionAge)))
}

// farewell is how long connections may take to close after the stop was cut short and the queued requests were
// abandoned: the last answers are still on the way out. Only connections with a running request, or with a client that
// does not read, need all of it.
const farewell = time.Second

// lameDuck is how long a server that is told to stop answers as before, by itself, within a drain timeout. One that was
// reloaded may be no longer than --lame-duck, which needs a restart: time must be left to answer what was accepted.
func (a *App) lameDuck(drain time.Duration) time.Duration {
	wait := 5 * time.Second
	switch {
	case a.LameDuck != config.AutoPeriod && time.Duration(a.LameDuck) < drain:
		return time.Duration(a.LameDuck)
	case a.LameDuck != config.AutoPeriod:
		wait = time.Duration(a.LameDuck)
	case a.terminal:
		return 0
	}
	return min(wait, drain/2)
}

// lameDuckPart is the first thing that stops, of a server that was ready: health says that it does not serve, and
// everything is answered on until callers and balancers have noticed. Towards the end callers over HTTP are asked to
// connect anew after their next answer, so that only idle connections are left to be closed.
func (s *assembly) lameDuckPart() lifecycle.Part {
	return lifecycle.Part{Name: "lame duck", Stop: func(ctx context.Context) error {
		s.edge.Retire()
		wait := s.lameDuck(time.Duration(s.drain.Load()))
		if wait > 0 {
			s.log.Info("answering on, while health says no", "event", "lame_duck", "lame_duck", wait)
		}
		last := wait / 5
		pause(ctx, wait-last)
		s.parting.Store(true)
		pause(ctx, last)
		if s.pagesServer != nil {
			s.pagesServer.SetKeepAlivesEnabled(false) // and closes idle connections
		}
		return nil
	}}
}

// pause waits for so long, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// grpcPart serves predictions. Its stop takes these steps:
//
//  1. hurry sees to it that nothing waits for a batch to fill. Connections are asked to go (GOAWAY), and streams end.
//     Requests that come meanwhile are answered, since their callers have not heard of it.
//  2. Once no connection is left, or half of the time is over that ctx leaves, new requests are refused. Accepted ones
//     are answered, as long as ctx lasts.
//  3. If ctx ends before that, abandon ends the queued requests, so that their callers get an answer, and running ones
//     have the farewell.
//  4. If calls are still open when that time is over, end ends the runs. Runs that it cannot end are left behind, which
//     is the error.
func grpcPart(l net.Listener, s *server.Server, g *grpc.Server, hurry, abandon func(),
	end func() error, log *slog.Logger,
) lifecycle.Part {
	return lifecycle.Part{
		Name: "gRPC server",
		Run:  func() error { return g.Serve(l) },
		Stop: func(ctx context.Context) error {
			hurry()
			finished := make(chan struct{})
			go func() {
				g.GracefulStop()
				close(finished)
			}()
			s.Leave()
			refuse, cancel := context.WithCancel(ctx)
			if end, has := ctx.Deadline(); has {
				refuse, cancel = context.WithTimeout(ctx, time.Until(end)/2)
			}
			defer cancel()
			select {
			case <-finished:
			case <-refuse.Done():
			}
			err := s.Drain(ctx)
			if err != nil {
				if n := s.Unanswered(); n > 0 { // else it is streams that had not ended yet
					log.Warn("accepted requests abandoned", "event", "requests_abandoned", "requests", n)
				}
				abandon()
			}
			// After an orderly drain the answers have what is left of ctx. After one that was cut short ctx has ended
			// already.
			sending := ctx
			if err != nil {
				hurry, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
				defer cancel()
				sending = hurry
			}
			select {
			case <-finished:
				return err
			case <-sending.Done():
			}
			log.Warn("connections closed with calls open", "event", "connections_cut")
			if left := end(); left != nil {
				go g.Stop() // it waits for the handlers
				return errors.Join(err, left)
			}
			g.Stop()
			<-finished
			return err
		},
	}
}

// requestObserver hands the server's events of requests and outcomes to the metrics, to what is shown live and, for
// debugging, to the log.
type requestObserver struct {
	*telemetry.Telemetry

	activity *activity.Log
	log      *slog.Logger
}

// totalsOf gives the counts of requests to what is shown live, by model. Requests in flight are all that came less all
// that ended, by any code.
func totalsOf(t *telemetry.Telemetry) func() map[string]*weftv1.RequestTotals {
	return func() map[string]*weftv1.RequestTotals {
		all := map[string]*weftv1.RequestTotals{}
		t.RequestCounts(func(model, code string, n int64) {
			of := all[model]
			if of == nil {
				of = &weftv1.RequestTotals{}
				all[model] = of
			}
			if code == "" {
				of.Offered += float64(n)
				of.InFlight += float64(n)
				return
			}
			of.InFlight -= float64(n)
			// Codes differ in detail; what is shown live has five kinds of ends.
			*map[predict.Ending]*float64{
				predict.Answered: &of.Answered, predict.Refused: &of.Refused, predict.Expired: &of.Expired,
				predict.Cancelled: &of.Cancelled, predict.Failed: &of.Failed,
			}[predict.EndingOf(code)] += float64(n)
		})
		return all
	}
}

// batchObserver hands the scheduler's executions to the metrics and to what is shown live. It is called without the
// scheduler's lock.
type batchObserver struct {
	measured *telemetry.Telemetry
	activity *activity.Log
}

// BatchDone implements shell.Observer.
func (o batchObserver) BatchDone(e sharedsched.BatchEvent) {
	o.measured.BatchDone(e)
	o.activity.BatchDone(e)
}

// RequestDone implements predict.Observer.
func (o requestObserver) RequestDone(ctx context.Context, e *predict.Event) {
	o.Telemetry.RequestDone(ctx, e)
	o.activity.RequestDone(ctx, e)
	// The attributes cost allocations, which each request would pay.
	if o.log.Enabled(ctx, slog.LevelDebug) {
		o.log.DebugContext(ctx, "request done", "event", "request_done", "model", e.Model, "version", e.Version,
			"slot", e.Slot, "code", e.Code, "took", e.Duration, "stream", e.Stream)
	}
}

// connectionsOf tells the metrics how many connections are open, and how many the server ended, by reason.
func connectionsOf(g *protect.Connections) telemetry.Connections {
	s := g.Stats()
	out := telemetry.Connections{Open: s.Connections, HeldBytes: s.HeldBytes, Ended: map[string]uint64{}}
	for r, n := range s.Ended {
		out.Ended[protect.Reason(r).String()] = n
	}
	return out
}

// statesOf gives the states of episodes to the metrics.
func statesOf(c episode.Counts) telemetry.EpisodeStates {
	out := telemetry.EpisodeStates{
		Live: c.Live, Bytes: c.Bytes, Spare: c.Spare, Ended: map[telemetry.EpisodeEnd]uint64{},
	}
	for of, n := range c.Ended {
		out.Ended[telemetry.EpisodeEnd{Model: of.Model, Reason: string(of.Why)}] = n
	}
	return out
}

// breakersOf gives the state of the circuit breakers to the metrics.
func breakersOf(s *server.Server) []telemetry.Breaker {
	var out []telemetry.Breaker
	for _, b := range s.Breakers() {
		out = append(out, telemetry.Breaker{Model: b.Model, Version: b.Version, State: fmt.Sprint(b.State)})
	}
	return out
}

// verdictsOf gives what the latest rollouts say of their candidates to the metrics.
func verdictsOf(m *rollout.Manager) []telemetry.Verdict {
	var out []telemetry.Verdict
	for _, c := range m.Candidates() {
		v := telemetry.Verdict{Model: c.Model, Version: c.Version}
		switch c.State {
		case rollout.Running:
		case rollout.Promoted:
			v.Value = 1
		case rollout.RolledBack, rollout.Aborted, rollout.Expired:
			v.Value = -1
		}
		out = append(out, v)
	}
	return out
}

// adminPart serves the calls that change something. Its stop waits for no version to load or drain: such calls end with
// the drain of the gRPC server, which must have begun before. Only their answers are still on the way then, and have
// the farewell.
func adminPart(l net.Listener, admin *server.Admin, options []grpc.ServerOption) lifecycle.Part {
	g := grpc.NewServer(options...)
	admin.Register(g)
	return lifecycle.Part{
		Name: "admin server",
		Run:  func() error { return g.Serve(l) },
		Stop: func(ctx context.Context) error {
			sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
			defer cancel()
			// After the farewell Stop closes the connections, which ends GracefulStop.
			finished := context.AfterFunc(sending, g.Stop)
			g.GracefulStop()
			if !finished() {
				g.Stop() // is on its way
			}
			return nil
		},
	}
}
