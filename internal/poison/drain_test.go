//go:build linux

package poison

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// TestStops sends SIGTERM under load. Each request is answered, or refused by a server that stops; and the server ends
// with status 0. In each fourth case a run hangs: in every other of them for longer than the stop may take, which then
// cuts requests short.
func TestStops(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts servers")
	}
	together(t)
	few := innocents[2:]
	repository := addInnocents(t, few)
	all := poisons(t)
	hanging := &all[slices.IndexFunc(all, func(p poison) bool { return p.name == "conv-no-kernel" })]
	addModel(t, repository, hanging.name, hanging.sketch, hanging.manifest())
	rng := rand.New(rand.NewPCG(5, 6))
	var took [2][]time.Duration // without a run that hangs, and with one
	ended := ends{statuses: [2]map[int]int{{}, {}}}
	for i := range weftest.Times(4, 20) {
		hangs, long := i%4 == 3, i%8 == 7
		drain, hung := "--drain-timeout=20s", 0
		if hangs {
			hung = 1
		}
		if long {
			drain = "--drain-timeout=500ms"
		}
		s := serve(t, repository, drain, "--run-timeout=1s")
		l := &load{t: t, server: s, heard: make(chan struct{})}
		ctx, cancel := context.WithTimeout(t.Context(), innocentLimit)
		var callers sync.WaitGroup
		for c := range 2 * len(few) {
			rng := rand.New(rand.NewPCG(uint64(i), uint64(c)))
			callers.Go(func() { l.askUntilRefused(ctx, &few[c%len(few)], rng, &ended) })
		}
		l.next(1 + rng.IntN(200))
		if hangs {
			callers.Go(func() { _, _ = weftv1.NewPredictionServiceClient(s.conn).Predict(ctx, hanging.request(t)) })
			awaitRun(t, s, hanging.name)
		}
		took[hung] = append(took[hung], s.terminate())
		callers.Wait()
		cancel()
		if left := s.workers(); len(left) > 0 {
			t.Errorf("start %d: workers are left: %v", i, left)
		}
		if lost := ended.lost.Swap(0); lost > 0 && long {
			ended.cut.Add(lost)
		} else if lost > 0 || s.status != 0 && !long {
			t.Errorf("start %d: %d requests were lost, the last by %v; the server ended with status %d", i, lost,
				ended.last.Load(), s.status)
		}
		ended.statuses[hung][s.status]++
		s.close()
	}
	t.Logf("%d answers, %d refusals, %d cut short by a run that hung; by exit status %v, and with a run that hung %v",
		ended.answered.Load(), ended.refused.Load(), ended.cut.Load(), ended.statuses[0], ended.statuses[1])
	t.Logf("the stop took %s; with a run that hung %s", spread(took[0]), spread(took[1]))
}

// TestARunThatNothingEnds: a server whose models run in its own process leaves a run that hangs behind, says which, and
// waits for no other part because of it.
func TestARunThatNothingEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a server")
	}
	repository := t.TempDir()
	all := poisons(t)
	hanging := &all[slices.IndexFunc(all, func(p poison) bool { return p.name == "conv-no-kernel" })]
	addModel(t, repository, hanging.name, hanging.sketch, hanging.manifest())
	s := serve(t, repository, "--isolation=none", "--drain-timeout=100ms", "--log-level=debug")
	var caller sync.WaitGroup
	caller.Go(func() { _, _ = weftv1.NewPredictionServiceClient(s.conn).Predict(t.Context(), hanging.request(t)) })
	awaitRun(t, s, hanging.name)
	t.Logf("the stop took %v", s.terminate())
	caller.Wait()
	if said := s.event("run_left_behind"); s.status != 1 || said != 1 {
		t.Errorf("it ended with status %d, and said %d times that it leaves a run behind", s.status, said)
	}
	for _, line := range s.said {
		if strings.Contains(line, "did not end within") {
			t.Errorf("a part was waited for: %s", line)
		}
	}
}

// ends counts how requests ended.
type ends struct {
	answered, refused, lost, cut atomic.Int64
	last                         atomic.Value   // of the lost ones, as text
	statuses                     [2]map[int]int // of servers, without and with a run that hung
}

// askUntilRefused asks a model until the server stops.
func (l *load) askUntilRefused(ctx context.Context, m *innocent, rng *rand.Rand, e *ends) {
	for {
		err := l.ask(ctx, m, rng)
		switch {
		case err == nil:
			e.answered.Add(1)
			l.tell()
			continue
		case isRefusal(err):
			e.refused.Add(1)
		default:
			e.lost.Add(1)
			e.last.Store(err.Error())
		}
		l.tell()
		return
	}
}

// awaitRun waits until a request for a model is being executed.
func awaitRun(t *testing.T, s *server, model string) {
	t.Helper()
	weftest.Until(t, "a run of "+model, func() bool {
		answer, err := weftv1.NewModelServiceClient(s.conn).GetSchedulerState(t.Context(),
			&weftv1.GetSchedulerStateRequest{Model: model})
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range answer.GetState().GetQueues() {
			if q.GetInFlight() > 0 {
				return true
			}
		}
		return false
	})
}

// isRefusal reports whether a request was refused before it was accepted, or reached no server.
func isRefusal(err error) bool {
	st := status.Convert(err)
	return st.Code() == codes.Unavailable &&
		(st.Message() == "the server is draining" || strings.HasPrefix(st.Message(), "connection error: "))
}
