package app

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/worker"
)

// killedManifests are those of the models: of networks whose process is killed, and of synthetic ones beside them. With
// two threads the device time of a network is that of the clock on the wall; with one, the thread's processor time.
var killedManifests = map[string]string{
	"walker":   "{batching: {mode: on, max_batch_size: 8}, onnx: {intra_op_threads: 2}}",
	"poisoned": "{batching: {max_batch_size: 8}, onnx: {intra_op_threads: 2}}",
	"narrow":   accountedModels["narrow"],
	"patient": `{batching: {mode: "off", max_queue: 1, on_full: wait}, max_latency: 200ms,
  onnx: {intra_op_threads: 2}}`,
	"held":      accountedModels["held"],
	"impatient": `{batching: {mode: "off"}, onnx: {intra_op_threads: 2}}`,
	"policy":    "{batching: {max_batch_size: 8}, onnx: {intra_op_threads: 2}}",
}

// serveKilled serves them: networks that take a millisecond, so that a process is killed while one runs.
func serveKilled(t *testing.T) (*running, *accounted) {
	t.Helper()
	const width = 1024
	rng := rand.New(rand.NewPCG(1, 1))
	random := func(n int) []float32 {
		all := make([]float32, n)
		for i := range all {
			all[i] = float32(rng.NormFloat64() / math.Sqrt(width))
		}
		return all
	}
	into, through, out := random(4*width), random(width*width), random(width*4)
	repository := t.TempDir()
	for name, manifest := range killedManifests {
		input := "x"
		if name == "policy" {
			input = "observation"
		}
		g := onnxgraph.New("g").Input(input, onnxgraph.Float, "n", 4).Output("y", onnxgraph.Float, "n", 4).
			InitFloats("in", []int64{4, width}, into...).InitFloats("through", []int64{width, width}, through...).
			InitFloats("out", []int64{width, 4}, out...).
			Node("MatMul", []string{input, "in"}, []string{"a"}).Node("MatMul", []string{"a", "through"}, []string{"b"}).
			Node("MatMul", []string{"b", "out"}, []string{"y"})
		weftest.AddVersion(t, repository, name, 1)
		weftest.SetManifest(t, repository, name, manifest)
		if strings.Contains(manifest, "synth") {
			continue
		}
		if err := os.WriteFile(filepath.Join(repository, name, "1", "model.onnx"), g.Marshal(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	weftest.AddVersion(t, repository, "unloadable", 1)
	file := filepath.Join(repository, "unloadable", "1", "model.onnx")
	if err := os.WriteFile(file, []byte("no model"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := serveFrom(t, repository, func(a *App) { a.MaxMessageBytes = 256 << 10 })
	r.awaitReady(t)
	return r, &accounted{t: t, conn: r.conn, admin: r.admin, metrics: r.http + "/metrics"}
}

// leave makes a call, or some on a stream, and leaves before all of them were answered.
func (c *client) leave(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	leaving := time.AfterFunc(time.Duration(c.rng.IntN(20_000))*time.Microsecond, cancel)
	defer leaving.Stop()
	service := weftv1.NewPredictionServiceClient(c.conn)
	if c.rng.IntN(2) == 0 {
		_, err := service.Predict(ctx, c.request("impatient"))
		if code := status.Code(err); code == codes.Canceled {
			c.giveUp(1)
		} else {
			c.count("Predict", "impatient", code)
		}
		return
	}
	n := 0
	defer func() { c.giveUp(n) }()
	s, err := service.PredictStream(ctx)
	for ; err == nil && n < 6; n++ {
		m := &weftv1.PredictStreamRequest{Request: c.request("impatient"), Supersede: c.rng.IntN(2) == 0}
		m.Request.RequestId = strconv.Itoa(n)
		if c.rng.IntN(2) == 0 {
			m.Timeout = durationpb.New(time.Duration(1+c.rng.IntN(10)) * time.Millisecond)
		}
		err = s.Send(m)
	}
	for err == nil {
		var answer *weftv1.PredictStreamResponse
		if answer, err = s.Recv(); err == nil {
			c.count("PredictStream", "impatient", codes.Code(answer.GetError().GetCode()))
			n--
		}
	}
}

// TestEverythingIsAccountedForWhileWorkersAreKilled: whatever callers do while the processes that run their models are
// killed, each request that came has one end, on every page of the metrics and on the live page, and callers have
// counted the same; and the device time of the models is the time in which the device was busy.
func TestEverythingIsAccountedForWhileWorkersAreKilled(t *testing.T) {
	if err := worker.Supported(); err != nil {
		t.Skip(err)
	}
	if testing.Short() {
		t.Skip("it takes 6 seconds")
	}
	const callers, calls, kills, seed = 12, 50, 8, 7
	r, a := serveKilled(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*weftest.Patience)
	defer cancel()

	// Before which calls processes are killed follows from the seed: all of them, or the one that runs models or that
	// which is to run them next.
	rng, faults := rand.New(rand.NewPCG(seed, 0)), map[int64]int{}
	for i := range int64(kills) {
		faults[callers*calls/kills*i+rng.Int64N(callers*calls/kills)] = rng.IntN(4)
	}
	kill := func(which int) {
		for i, pid := range weftest.Children(os.Getpid()) {
			if which > 1 || which == i {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended already
			}
		}
	}
	counted, made := &clientCounts{counts: sums{}}, atomic.Int64{}
	var busy sync.WaitGroup
	for i := range callers {
		c := &client{clientCounts: counted, conn: r.conn, rng: rand.New(rand.NewPCG(seed, uint64(1+i)))}
		busy.Go(func() {
			for range calls {
				if which, is := faults[made.Add(1)-1]; is {
					kill(which)
				}
				switch c.rng.IntN(5) {
				case 0:
					if err := c.stream(ctx); err != nil {
						t.Errorf("a stream ended with %v", err)
					}
				case 1:
					c.impatient(ctx)
				case 2:
					c.leave(ctx)
				default:
					c.unary(ctx)
				}
			}
		})
	}
	idle := make(chan struct{})
	go func() { busy.Wait(); close(idle) }()
	again := time.NewTicker(20 * time.Millisecond) // a server that does nothing but show pages would answer no request
	defer again.Stop()
	for !closed(idle) {
		a.checkBalance("while processes are killed")
		select {
		case <-again.C:
		case <-idle:
		}
	}

	busyMs := func() (state *weftv1.SchedulerState, sum float64) {
		t.Helper()
		s, err := weftv1.NewModelServiceClient(r.conn).GetSchedulerState(ctx, &weftv1.GetSchedulerStateRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range s.GetState().GetDevices() {
			sum += d.GetBusyMs()
		}
		return s.GetState(), sum
	}
	var state *weftv1.SchedulerState
	var live *weftv1.Activity
	weftest.Until(t, "a server that rests", func() bool { // audits run for a while
		var before float64
		state, before = busyMs()
		live = activityOf(t, r.http)
		page := a.page()
		for _, flight := range []string{"weft_requests_in_flight", "weft_tasks_in_flight", "weft_executions_in_flight"} {
			if total(by(page, flight)) > 0 {
				return false
			}
		}
		_, after := busyMs()
		return before == after
	})
	page := a.checkBalance("after the end", "weft_requests_in_flight", "weft_tasks_in_flight",
		"weft_executions_in_flight", "weft_waiting_for_room")
	counted.compare(t, page)
	if n := by(page, "weft_worker_deaths_total", "signal")[of("SIGKILL")]; n < 2 {
		t.Errorf("%d processes died that ran models, want some of %d", n, kills)
	} else {
		t.Logf("%d processes died that ran models", n)
	}
	for name, n := range live.GetTotals() {
		ended := n.GetAnswered() + n.GetRefused() + n.GetExpired() + n.GetCancelled() + n.GetFailed()
		if n.GetOffered() != ended || n.GetInFlight() != 0 ||
			n.GetOffered() != sumOf(page, "weft_requests_offered_total", "model", name) ||
			n.GetAnswered() != sumOf(page, "weft_requests_total", "model", name, "code", "OK") {
			t.Errorf("of %q: %v, the ends are %v, the metrics %v", name, n, ended, by(page, "weft_requests_total", "model",
				"code"))
		}
	}
	for _, d := range state.GetDevices() {
		charged, used, wall := 0., sumOf(page, "weft_device_busy_seconds_total", "device", d.GetName()), d.GetBusyMs()/1e3
		for _, f := range state.GetFlows() {
			if f.GetDevice() == d.GetName() {
				charged += f.GetChargedMs() / 1e3
			}
		}
		t.Logf("%s: versions used %.6f s, flows were charged %.6f s, it was busy for %.6f s", d.GetName(), used, charged,
			wall)
		if wall == 0 || math.Abs(used-wall) > wall/100 || math.Abs(used-charged) > used/1e6 {
			t.Errorf("versions used %s for %v s, flows were charged %v s, it was busy for %v s", d.GetName(), used, charged,
				wall)
		}
	}
}
