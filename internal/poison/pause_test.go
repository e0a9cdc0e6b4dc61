//go:build linux

package poison

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// pause is a time that some processes do not have.
type pause struct {
	server, workers bool          // are stopped
	others          int           // that are busy meanwhile
	takes           time.Duration // its length
}

func (p pause) String() string {
	return fmt.Sprintf("%v, stopped: server %v, workers %v; %d busy processes", p.takes, p.server, p.workers, p.others)
}

// drawPauses returns pauses of 0.2 to 10 s. The short form has one of each kind, longer than what would be waited for.
func drawPauses(seed uint64) (all []pause) {
	kinds := []pause{
		{workers: true, takes: 6500 * time.Millisecond},
		{server: true, takes: 3 * time.Second},
		{server: true, workers: true, takes: 1200 * time.Millisecond},
		{others: 50, takes: 3 * time.Second},
	}
	if !weftest.Long() {
		return kinds
	}
	rng := rand.New(rand.NewPCG(seed, 8))
	for range weftest.Times(0, 20) {
		p := kinds[rng.IntN(len(kinds))]
		p.takes = time.Duration(float64(200*time.Millisecond) * (1 + 49*rng.Float64()*rng.Float64()))
		all = append(all, p)
	}
	return append(all, pause{server: true, takes: 10 * time.Second}, pause{workers: true, takes: 10 * time.Second},
		pause{server: true, workers: true, takes: 10 * time.Second}, pause{others: 50, takes: 20 * time.Second})
}

// TestPauses stops the server, its workers and both, and gives them hardly any processor: that is nobody's fault. All
// requests are answered that have the time for it, no connection of callers who give up soon is ended, no process is,
// and every model stays SERVING. Then a run that hangs is still ended.
func TestPauses(t *testing.T) {
	nightly(t)
	seed := uint64(1)
	repository := addInnocents(t, innocents)
	weftest.SetManifest(t, repository, "sums", "{target_latency: 200ms, batching: {max_batch_size: 8}}")
	s := serve(t, repository)
	l := callInnocents(s, 12) // enough for a circuit breaker to judge a version by those of one pause
	ctx, end := context.WithCancel(t.Context())
	var others sync.WaitGroup
	var given, streamed atomic.Int64
	watchHealth(ctx, t, s, &others)
	for i := range 4 {
		others.Go(func() { giveUp(ctx, t, s, rand.New(rand.NewPCG(seed, uint64(i))), &given) })
		others.Go(func() { stream(ctx, t, s, &innocents[i], &streamed) })
	}
	for _, p := range drawPauses(seed) {
		l.more(3)
		was := s.faults()
		p.run(t, s)
		l.more(1)
		if now := s.faults(); !slices.Equal(was, now) {
			t.Errorf("%v: events of %v are %v, before %v", p, faults, now, was)
		}
	}
	l.more(3)
	end()
	others.Wait()
	answers := l.stop()
	t.Logf("%d answers, %d on streams, %d requests given up", answers, streamed.Load(), given.Load())
	if lost := l.lost.Load(); lost > 0 {
		t.Errorf("%d of %d answers were lost or wrong", lost, answers)
	}
}

// faults are the events that say that somebody is taken for a culprit.
var faults = []string{
	"worker_died", "connection_ended", "version_stalled", "request_crashed", "breaker_changed", "no_progress",
}

func (s *server) faults() (counts []int) {
	for _, event := range faults {
		counts = append(counts, s.event(event))
	}
	return counts
}

// run has the pause.
func (p pause) run(t *testing.T, s *server) {
	var stopped []int
	if p.workers {
		stopped = s.workers()
	}
	if p.server {
		stopped = append(stopped, s.command.Process.Pid)
	}
	for _, pid := range stopped {
		_ = unix.Kill(pid, unix.SIGSTOP) // one that has ended is missed below
	}
	var busy []*exec.Cmd
	for range p.others {
		c := exec.Command("sh", "-c", "while :; do :; done")
		if err := c.Start(); err != nil {
			t.Error(err)
			continue
		}
		busy = append(busy, c)
	}
	<-time.After(p.takes) // nothing tells of its end
	for _, pid := range slices.Backward(stopped) {
		_ = unix.Kill(pid, unix.SIGCONT)
	}
	for _, c := range busy {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
}

// watchHealth tells of each model that is not SERVING, and of the server.
func watchHealth(ctx context.Context, t *testing.T, s *server, until *sync.WaitGroup) {
	for _, name := range []string{"", "double", "sums", "rounds", "ratios", "synthetic"} {
		watch, err := healthgrpc.NewHealthClient(s.conn).Watch(ctx, &healthgrpc.HealthCheckRequest{Service: name})
		if err != nil {
			t.Fatal(err)
		}
		until.Go(func() {
			for {
				now, err := watch.Recv()
				if err != nil {
					return // the test has ended, or its requests fail, too
				}
				if now.GetStatus() != healthgrpc.HealthCheckResponse_SERVING {
					t.Errorf("%q is %v", name, now.GetStatus())
				}
			}
		})
	}
}

// overloaded are the codes of requests that were given up, or refused because they would be.
var overloaded = []codes.Code{codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted}

// giveUp is one connection of an honest client whose requests have little time: as many end with that, or are given up,
// as the server lets wait.
func giveUp(ctx context.Context, t *testing.T, s *server, rng *rand.Rand, given *atomic.Int64) {
	conn, err := weftest.Dial(s.conn.Target()[len("passthrough:"):])
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	var callers sync.WaitGroup
	defer callers.Wait()
	for range 8 {
		takes := time.Duration(20+rng.IntN(80)) * time.Millisecond
		callers.Go(func() {
			for ctx.Err() == nil {
				soon, cancel := context.WithTimeout(ctx, takes)
				_, err := weftv1.NewPredictionServiceClient(conn).Predict(soon, floatRequest("double", []float32{1, 2, 3, 4}))
				cancel()
				switch {
				case err == nil:
				case slices.Contains(overloaded, status.Code(err)):
					given.Add(1)
				default:
					t.Errorf("of a caller that gives up soon: %v", err)
				}
			}
		})
	}
}

// stream asks a model on one stream, one request after the other.
func stream(ctx context.Context, t *testing.T, s *server, m *innocent, answered *atomic.Int64) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	limit := durationpb.New(innocentLimit)
	calls, err := weftv1.NewPredictionServiceClient(s.conn).PredictStream(life)
	for i := 0; err == nil && ctx.Err() == nil; i++ {
		request := floatRequest(m.name, []float32{8, 4, 2, 1})
		request.RequestId = strconv.Itoa(i)
		if err = calls.Send(&weftv1.PredictStreamRequest{Request: request, Timeout: limit}); err != nil {
			break
		}
		var answer *weftv1.PredictStreamResponse
		if answer, err = calls.Recv(); answer.GetError() != nil {
			err = errors.New(answer.GetError().GetMessage())
		}
		answered.Add(1)
	}
	if err != nil {
		t.Errorf("a stream to %s: %v", m.name, err)
	}
}
