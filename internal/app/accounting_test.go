package app

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// TestEverythingIsAccountedFor lets many clients use a server as clients do, while versions come and go and traffic is
// moved, and then stops it under load. On every page of its metrics the requests that came are the ended ones and the
// ones in flight; and when it is quiet the requests are, by method, model and code, as the clients have counted them.
func TestEverythingIsAccountedFor(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 8 seconds")
	}
	const clients, calls = 16, 30
	a := serveAccounted(t)
	counted := &clientCounts{counts: sums{}}
	caller := func(seed uint64) *client {
		return &client{clientCounts: counted, conn: a.conn, rng: rand.New(rand.NewPCG(seed, 1))}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*weftest.Patience)
	defer cancel()

	var busy sync.WaitGroup
	for seed := uint64(0); seed == 0 || len(a.missing(chances)) > 0 && ctx.Err() == nil; {
		for range clients {
			c := caller(seed)
			busy.Go(func() {
				for range calls {
					switch c.rng.IntN(4) {
					case 0:
						if err := c.stream(ctx); err != nil {
							t.Errorf("a stream ended with %v", err)
						}
					case 1:
						c.impatient(ctx)
					default:
						c.unary(ctx)
					}
				}
			})
			seed++
		}
		idle := make(chan struct{})
		go func() { busy.Wait(); close(idle) }()
		a.disturb(ctx, idle)
	}
	a.checkBalance("while clients are gone", "weft_requests_in_flight")
	a.shadow(ctx, counted)

	// A flood with time enough, and behind it one request that has only the version's max_latency: 16 times 20 ms are
	// more than that, and no request overtakes another.
	predict := func(ctx context.Context, model string) {
		_, err := weftv1.NewPredictionServiceClient(a.conn).Predict(ctx, weftest.Request(model, 1))
		counted.count("Predict", model, status.Code(err))
	}
	for by(a.checkBalance("between floods"), "weft_room_waits_ended_total", "end")[of("expired")] == 0 &&
		ctx.Err() == nil {
		var flood sync.WaitGroup
		for range 32 {
			flood.Go(func() { predict(ctx, "patient") })
		}
		over := make(chan struct{})
		go func() { flood.Wait(); close(over) }()
		a.await(ctx, func(page map[string]*dto.MetricFamily) bool {
			// before a page was there
			return by(page, "weft_waiting_for_room", "model")[of("patient")] >= 16 || closed(over)
		})
		predict(context.WithoutCancel(ctx), "patient")
		<-over
	}

	// Requests that stay: four are in the queue, and held there for their batch, and two wait for room.
	for range 6 {
		busy.Go(func() { predict(ctx, "holding") })
	}
	a.await(ctx, func(page map[string]*dto.MetricFamily) bool {
		return by(page, "weft_waiting_for_room", "model")[of("holding")] == 2 &&
			by(page, "weft_requests_in_flight", "model")[of("holding")] == 6 &&
			by(page, "weft_tasks_in_flight", "model")[of("holding")] == 4
	})
	state, err := weftv1.NewModelServiceClient(a.conn).GetSchedulerState(ctx,
		&weftv1.GetSchedulerStateRequest{Model: "holding"})
	if q := state.GetState().GetQueues(); err != nil || len(q) != 1 || q[0].GetWaitingForRoom() != 2 ||
		q[0].GetRequests() != 4 {
		t.Errorf("the state of the queue is %v, %v; want 4 requests in it and 2 that wait for room", q, err)
	}

	// The end, with requests on their way.
	asked := func() int {
		counted.mu.Lock()
		defer counted.mu.Unlock()
		return total(counted.counts)
	}
	before := asked()
	for seed := range uint64(8) {
		busy.Go(func() { caller(100 + seed).hammer(ctx) })
	}
	weftest.Until(t, "calls at the end", func() bool { return asked() >= before+16 })
	a.stop()
	busy.Wait()
	page := a.checkBalance("after the end", "weft_requests_in_flight", "weft_tasks_in_flight",
		"weft_executions_in_flight", "weft_waiting_for_room")

	counted.compare(t, page)
	for _, m := range append(a.missing(chances), a.missing(sure)...) {
		t.Error("nothing was counted as", m)
	}
}

// disturb loads and unloads a version and moves traffic until idle is closed, and checks pages on the way.
func (a *accounted) disturb(ctx context.Context, idle <-chan struct{}) {
	a.t.Helper()
	admin := weftv1.NewAdminServiceClient(a.admin)
	// These may fail, as when a version is in use; it matters only that they happen.
	changes := []func(){
		func() { _, _ = admin.UnloadVersion(ctx, &weftv1.UnloadVersionRequest{Model: "walker", Version: 2}) },
		func() { _, _ = admin.LoadVersion(ctx, &weftv1.LoadVersionRequest{Model: "walker", Version: 2}) },
		func() {
			_, _ = admin.SetTraffic(ctx, &weftv1.SetTrafficRequest{Model: "walker", Traffic: &weftv1.Traffic{
				Split: []*weftv1.TrafficSlot{{Slot: "a", Version: 1, Weight: 1}, {Slot: "b", Version: 2, Weight: 1}},
			}})
		},
		func() { _, _ = admin.SetTraffic(ctx, shadowed()) },
		func() {
			_, _ = admin.SetTraffic(ctx, &weftv1.SetTrafficRequest{Model: "walker", Traffic: &weftv1.Traffic{}})
		},
	}
	next := time.NewTicker(20 * time.Millisecond) // a server that does nothing but change would answer no request
	defer next.Stop()
	for i := 0; ; i++ {
		select {
		case <-idle:
			return
		case <-next.C:
			changes[i%len(changes)]()
			a.checkBalance("under load")
		}
	}
}

// shadowed lets version 2 of the walker be shown the requests of version 1.
func shadowed() *weftv1.SetTrafficRequest {
	return &weftv1.SetTrafficRequest{Model: "walker", Traffic: &weftv1.Traffic{
		Split:  []*weftv1.TrafficSlot{{Slot: "a", Version: 1, Weight: 1}},
		Shadow: []*weftv1.TrafficShadow{{Version: 2, Sample: 1}},
	}}
}

// shadow asks until a shadow has answered: under load all of them may have been dropped.
func (a *accounted) shadow(ctx context.Context, counted *clientCounts) {
	a.t.Helper()
	admin := weftv1.NewAdminServiceClient(a.admin)
	_, _ = admin.LoadVersion(ctx, &weftv1.LoadVersionRequest{Model: "walker", Version: 2}) // it may be there
	if _, err := admin.SetTraffic(ctx, shadowed()); err != nil {
		a.t.Fatal(err)
	}
	a.await(ctx, func(page map[string]*dto.MetricFamily) bool {
		_, err := weftv1.NewPredictionServiceClient(a.conn).Predict(ctx, weftest.Request("walker", 1))
		counted.count("Predict", "walker", status.Code(err))
		return by(page, "weft_shadow_requests_total", "outcome")[of("done")] > 0
	})
}

// checkBalance fetches a page and checks that it adds up, and that nothing is left of the gauges that must be zero.
func (a *accounted) checkBalance(when string, zero ...string) map[string]*dto.MetricFamily {
	a.t.Helper()
	page := a.page()
	faults := balance(page)
	for _, name := range zero {
		if n := total(by(page, name)); n != 0 {
			faults = append(faults, name+" is not zero")
		}
	}
	if len(faults) > 0 {
		a.t.Fatalf("%s:\n%s", when, strings.Join(faults, "\n"))
	}
	return page
}

// await fetches pages until one is as it is to be. All of them must add up.
func (a *accounted) await(ctx context.Context, ready func(map[string]*dto.MetricFamily) bool) {
	a.t.Helper()
	again := time.NewTicker(5 * time.Millisecond) // nothing tells of metrics but looking at them
	defer again.Stop()
	for !ready(a.checkBalance("while requests are held")) {
		select {
		case <-again.C:
		case <-ctx.Done():
			a.t.Fatal(ctx.Err())
		}
	}
}

// chances are the values of metrics that clients bring about by chance, sure the ones that the test brings about.
var (
	chances = map[string][]string{
		"weft_requests_total code": {
			"OK", "InvalidArgument", "NotFound", "FailedPrecondition", "ResourceExhausted", "DeadlineExceeded", "Internal",
			"Aborted",
		},
		"weft_tasks_ended_total end":          {"done", "failed", "cancelled"},
		"weft_executions_ended_total outcome": {"done", "failed"},
		"weft_room_waits_ended_total end":     {"admitted"},
		"weft_execution_reruns_total model":   {"poisoned"},
	}
	sure = map[string][]string{
		"weft_requests_total code":           {"Unavailable"},
		"weft_room_waits_ended_total end":    {"expired"},
		"weft_shadow_requests_total outcome": {"done"},
	}
)

// missing returns the values of metrics, each named with its label, that were not counted.
func (a *accounted) missing(wanted map[string][]string) (missing []string) {
	a.t.Helper()
	page := a.page()
	for metric, values := range wanted {
		name, label, _ := strings.Cut(metric, " ")
		seen := by(page, name, label)
		for _, v := range values {
			if seen[of(v)] == 0 {
				missing = append(missing, fmt.Sprintf("%s %s=%q: %v", name, label, v, seen))
			}
		}
	}
	return missing
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func total(s sums) (n int) {
	for _, v := range s {
		n += v
	}
	return n
}
