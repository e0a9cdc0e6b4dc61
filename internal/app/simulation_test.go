package app

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/worker"
)

// accountedModels are the models of the simulation. Their requests end in different ways.
var accountedModels = map[string]string{
	"walker": `{versions: {policy: all}, synth: {base: 0s, ` + tensors + `},
batching: {mode: on, max_batch_size: 8, allowed_batch_sizes: [2, 8]}}`,
	"poisoned": `{synth: {base: 200us, fail_on_nan: true, fail_every: 23, ` + tensors + `},
batching: {mode: on, max_batch_size: 8}}`,
	"narrow": `{synth: {base: 1ms, ` + tensors + `}, batching: {mode: "off", max_queue: 2}}`,
	"patient": `{synth: {base: 20ms, ` + tensors + `}, batching: {mode: "off", max_queue: 1, on_full: wait},
max_latency: 200ms}`,
	"held": `{synth: {base: 0s, ` + tensors + `}, max_latency: 50ms,
batching: {mode: on, max_batch_size: 8, batch_timeout: 3ms, max_request_rows: 20}}`,
	"impatient": `{synth: {base: 2ms, ` + tensors + `}, batching: {mode: "off"}}`,
	"holding": `{synth: {base: 0s, ` + tensors + `}, max_latency: 2m,
batching: {mode: on, max_batch_size: 8, batch_timeout: 1m, max_queue: 4, on_full: wait}}`,
	"policy":     "batching: {max_batch_size: 8}",
	"unloadable": "",
}

// networks are those whose process is killed, in the place of synthetic ones. With two threads the device time of a
// network is that of the clock on the wall; with one, the thread's processor time.
var networks = map[string]string{
	"walker":    "{versions: {policy: all}, batching: {mode: on, max_batch_size: 8}, onnx: {intra_op_threads: 2}}",
	"poisoned":  "{batching: {max_batch_size: 8}, onnx: {intra_op_threads: 2}}",
	"impatient": `{batching: {mode: "off"}, onnx: {intra_op_threads: 2}}`,
	"policy":    "{batching: {max_batch_size: 8}, onnx: {intra_op_threads: 2}}",
}

// accounted is a whole server in this process.
type accounted struct {
	*running
	t *testing.T
	// last is the page of metrics when all parts but them have stopped.
	last string
}

// serveAccounted serves the models.
func serveAccounted(t *testing.T, kills bool) *accounted {
	t.Helper()
	repository := t.TempDir()
	for name, manifest := range accountedModels {
		weftest.AddVersion(t, repository, name, 1)
		if kills && networks[name] != "" {
			manifest = networks[name]
			weftest.WriteFile(t, filepath.Join(repository, name, "1"), "model.onnx", network(name))
		}
		weftest.SetManifest(t, repository, name, manifest)
	}
	if !kills {
		weftest.AddVersion(t, repository, "walker", 2)
		weftest.WriteFile(t, filepath.Join(repository, "policy", "1"), "model.onnx",
			onnxgraph.MLP("policy", []int{4, 8, 4}, 1, "Tanh", ""))
	}
	weftest.WriteFile(t, filepath.Join(repository, "unloadable", "1"), "model.onnx", []byte("no model"))
	a := &accounted{t: t}
	a.running = serveFrom(t, repository, func(c *App) {
		c.MaxConcurrentRequests, c.MaxMessageBytes = 48, 256<<10
		c.atEnd = func(metrics http.Handler) {
			page := httptest.NewRecorder()
			metrics.ServeHTTP(page, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", http.NoBody))
			a.last = page.Body.String()
		}
	})
	a.awaitReady(t)
	return a
}

// network returns one that takes a millisecond, so that a process is killed while one runs.
func network(name string) []byte {
	const width = 1024
	rng := rand.New(rand.NewPCG(1, 1))
	random := func(n int) []float32 {
		all := make([]float32, n)
		for i := range all {
			all[i] = float32(rng.NormFloat64() / math.Sqrt(width))
		}
		return all
	}
	input := "x"
	if name == "policy" {
		input = "observation"
	}
	return onnxgraph.New("g").Input(input, onnxgraph.Float, "n", 4).Output("y", onnxgraph.Float, "n", 4).
		InitFloats("in", []int64{4, width}, random(4*width)...).
		InitFloats("through", []int64{width, width}, random(width*width)...).
		InitFloats("out", []int64{width, 4}, random(width*4)...).
		Node("MatMul", []string{input, "in"}, []string{"a"}).Node("MatMul", []string{"a", "through"}, []string{"b"}).
		Node("MatMul", []string{"b", "out"}, []string{"y"}).Marshal()
}

// TestEverythingIsAccountedFor lets many clients use a server as clients do, while versions come and go and traffic is
// moved, or while the processes of models are killed, and then stops it under load. On every page of its metrics the
// requests that came are the ended ones and the ones in flight; when it rests, the live page has the same numbers, and
// the device time of the versions is of the time in which devices were busy; and at the end the requests are, by
// method, model and code, as the clients have counted them.
func TestEverythingIsAccountedFor(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some seconds")
	}
	for _, c := range []struct {
		name          string
		seed          uint64
		clients, each int
		kills         int // of processes
	}{
		{"while versions change", 0, 16, 30, 0},
		{"while workers are killed", 7, 12, 20, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := worker.Supported(); err != nil && c.kills > 0 {
				t.Skip(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 4*weftest.Patience)
			defer cancel()
			a, counted := serveAccounted(t, c.kills > 0), &clientCounts{counts: sums{}}
			caller := func(seed uint64) *client {
				return &client{clientCounts: counted, conn: a.conn, rng: rand.New(rand.NewPCG(c.seed, seed))}
			}
			// Before which calls processes are killed follows from the seed: all of them, or the one that runs models or that
			// which is to run them next. A slow machine may still be starting the one before: then there are more.
			rng, faults, made := rand.New(rand.NewPCG(c.seed, 0)), map[int64]int{}, atomic.Int64{}
			deaths := func() int { return by(a.page(), "weft_worker_deaths_total", "signal")[of("SIGKILL")] }
			lacks := func() bool { return c.kills > 0 && deaths() < 2 || c.kills == 0 && len(a.missing(chances)) > 0 }
			var busy sync.WaitGroup
			for seed := uint64(1); seed == 1 || lacks() && ctx.Err() == nil; {
				for i := range c.kills {
					span := c.clients * c.each / c.kills
					faults[made.Load()+int64(span*i+rng.IntN(span))] = rng.IntN(4)
				}
				for range c.clients {
					k := caller(seed)
					busy.Go(func() {
						for range c.each {
							if which, is := faults[made.Add(1)-1]; is {
								kill(which)
							}
							k.use(ctx, t)
						}
					})
					seed++
				}
				idle := make(chan struct{})
				go func() { busy.Wait(); close(idle) }()
				a.disturb(ctx, idle, c.kills == 0)
			}
			a.rest(ctx, c.kills > 0)
			if n := deaths(); c.kills > 0 && n < 2 {
				t.Errorf("%d processes died that ran models, want some of %d", n, c.kills)
			}
			if c.kills == 0 {
				a.shadow(ctx, counted)
				a.crowd(ctx, counted, &busy)
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
			first := make(chan struct{})
			answered := sync.OnceFunc(func() { close(first) })
			for range 16 { // the stop waits for the others once one has ended
				busy.Go(func() {
					defer answered()
					a.predict(ctx, counted, "patient")
				})
			}
			<-first
			a.stop()
			busy.Wait()
			a.close()
			page := a.parse(strings.NewReader(a.last))
			a.check("after the end", page, inFlight...)
			counted.compare(t, page)
			if c.kills == 0 {
				for _, m := range append(missing(page, chances), missing(page, sure)...) {
					t.Error("nothing was counted as", m)
				}
			}
		})
	}
}

// kill kills worker processes: one, or all of them.
func kill(which int) {
	for i, pid := range weftest.Children(os.Getpid()) {
		if which > 1 || which == i {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended already
		}
	}
}

// inFlight are the gauges of what is on its way.
var inFlight = []string{
	"weft_requests_in_flight", "weft_tasks_in_flight", "weft_executions_in_flight", "weft_waiting_for_room",
}

// rest waits until the server rests, and the live page and the metrics have the same numbers; also of each version, if
// they are those of the start: metrics forget one that goes, and begin anew when it comes back. What callers gave up
// may still arrive, and audits run for a while.
func (a *accounted) rest(ctx context.Context, versions bool) {
	a.t.Helper()
	var wrong []string
	defer func() {
		if a.t.Failed() {
			a.t.Log(strings.Join(wrong, "\n"))
		}
	}()
	weftest.Until(a.t, "a page and metrics with the same numbers", func() bool {
		shown := activityOf(a.t, a.http)
		page := a.checkBalance("while it rests")
		state, err := weftv1.NewModelServiceClient(a.conn).GetSchedulerState(ctx, &weftv1.GetSchedulerStateRequest{})
		if err != nil {
			a.t.Fatal(err)
		}
		if wrong = disagreements(shown, page, state.GetState(), versions); len(shown.GetRunning()) > 0 {
			wrong = append(wrong, "there are batches running")
		}
		return len(wrong) == 0
	})
}

// predict makes a call, and counts how it ends.
func (a *accounted) predict(ctx context.Context, counted *clientCounts, model string) {
	_, err := weftv1.NewPredictionServiceClient(a.conn).Predict(ctx, weftest.Request(model, 1))
	counted.count("Predict", model, status.Code(err))
}

// crowd has more requests of a model come than its queue has room for, until one expires; and leaves some that stay.
func (a *accounted) crowd(ctx context.Context, counted *clientCounts, staying *sync.WaitGroup) {
	a.t.Helper()
	// A flood with time enough, and behind it one request that has only the version's max_latency: 16 times 20 ms are
	// more than that, and no request overtakes another.
	for by(a.checkBalance("between floods"), "weft_room_waits_ended_total", "end")[of("expired")] == 0 &&
		ctx.Err() == nil {
		var flood sync.WaitGroup
		for range 32 {
			flood.Go(func() { a.predict(ctx, counted, "patient") })
		}
		over := make(chan struct{})
		go func() { flood.Wait(); close(over) }()
		a.await(ctx, func(page map[string]*dto.MetricFamily) bool {
			// before a page was there
			return by(page, "weft_waiting_for_room", "model")[of("patient")] >= 16 || closed(over)
		})
		a.predict(context.WithoutCancel(ctx), counted, "patient")
		<-over
	}

	// Requests that stay: four are in the queue, and held there for their batch, and two wait for room.
	for range 6 {
		staying.Go(func() { a.predict(ctx, counted, "holding") })
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
		a.t.Errorf("the state of the queue is %v, %v; want 4 requests in it and 2 that wait for room", q, err)
	}
}

// disturb checks pages until idle is closed, and loads and unloads a version and moves traffic if that is to change.
func (a *accounted) disturb(ctx context.Context, idle <-chan struct{}, change bool) {
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
			if change {
				changes[i%len(changes)]()
			}
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
		a.predict(ctx, counted, "walker")
		return by(page, "weft_shadow_requests_total", "outcome")[of("done")] > 0
	})
}

// checkBalance fetches a page and checks that it adds up.
func (a *accounted) checkBalance(when string) map[string]*dto.MetricFamily {
	a.t.Helper()
	page := a.page()
	a.check(when, page)
	return page
}

// check wants a page to add up, and the gauges that must be zero to be that.
func (a *accounted) check(when string, page map[string]*dto.MetricFamily, zero ...string) {
	a.t.Helper()
	faults := balance(page)
	for _, name := range zero {
		if total(by(page, name)) != 0 {
			faults = append(faults, name+" is not zero")
		}
	}
	if len(faults) > 0 {
		a.t.Fatalf("%s:\n%s", when, strings.Join(faults, "\n"))
	}
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
		"weft_room_waits_ended_total end":    {"expired"},
		"weft_shadow_requests_total outcome": {"done"},
	}
)

// missing returns the values of metrics, each named with its label, that were not counted.
func missing(page map[string]*dto.MetricFamily, wanted map[string][]string) (missing []string) {
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

func (a *accounted) missing(wanted map[string][]string) []string { return missing(a.page(), wanted) }

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

// sums are the samples of a metric, summed by some of their labels.
type sums map[string]int

// page fetches the metrics.
func (a *accounted) page() map[string]*dto.MetricFamily {
	a.t.Helper()
	_, body := a.get(a.t, "/metrics")
	return a.parse(strings.NewReader(body))
}

func (a *accounted) parse(page io.Reader) map[string]*dto.MetricFamily {
	a.t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(page)
	if err != nil {
		a.t.Fatal(err)
	}
	return families
}

// by sums the samples of a metric by the values of the labels, each followed by a space.
func by(page map[string]*dto.MetricFamily, metric string, labels ...string) sums {
	out := sums{}
	for _, m := range page[metric].GetMetric() {
		values := make([]string, 0, len(labels))
		for _, name := range labels {
			for _, l := range m.GetLabel() {
				if l.GetName() == name {
					values = append(values, l.GetValue())
				}
			}
		}
		out[of(values...)] += int(m.GetCounter().GetValue() + m.GetGauge().GetValue())
	}
	return out
}

// of is the key of sums: quoted, for a value may be empty.
func of(values ...string) string { return fmt.Sprintf("%q", values) }

// balance returns the sums on a page that do not add up.
func balance(page map[string]*dto.MetricFamily) (faults []string) {
	for _, sheet := range []struct {
		came, ended, between string
		labels               []string
	}{
		{"weft_requests_offered_total", "weft_requests_total", "weft_requests_in_flight", []string{"method", "model"}},
		{
			"weft_tasks_accepted_total", "weft_tasks_ended_total",
			"weft_tasks_in_flight",
			[]string{"device", "model", "version"},
		},
		{
			"weft_executions_started_total", "weft_executions_ended_total",
			"weft_executions_in_flight",
			[]string{"device", "model", "version"},
		},
		{
			"weft_room_waits_total", "weft_room_waits_ended_total",
			"weft_waiting_for_room",
			[]string{"device", "model", "version"},
		},
	} {
		came, ended, between := by(page, sheet.came, sheet.labels...), by(page, sheet.ended, sheet.labels...),
			by(page, sheet.between, sheet.labels...)
		for key, n := range came {
			if n != ended[key]+between[key] || between[key] < 0 {
				faults = append(faults, fmt.Sprintf("%s %s is %d, of which %d ended and %d are in flight", key,
					sheet.came, n, ended[key], between[key]))
			}
		}
		for key := range ended {
			if _, is := came[key]; !is {
				faults = append(faults, fmt.Sprintf("%s %s: %d ended, none came", key, sheet.ended, ended[key]))
			}
		}
	}
	return faults
}

// disagreements returns what a page says that a server's metrics and its scheduler do not. The server has rested.
func disagreements(a *weftv1.Activity, page map[string]*dto.MetricFamily, state *weftv1.SchedulerState, versions bool,
) (wrong []string) {
	want := func(of, what string, shown float64, metric string, labels ...string) {
		if measured := sumOf(page, metric, append(labels, "model", of)...); math.Abs(shown-measured) > 1e-6 {
			wrong = append(wrong, fmt.Sprintf("%q: %s are %v on the page, %v in the metrics", of, what, shown, measured))
		}
	}
	for name, n := range a.GetTotals() {
		ended := n.GetAnswered() + n.GetRefused() + n.GetExpired() + n.GetCancelled() + n.GetFailed()
		if n.GetOffered() != ended || n.GetInFlight() != 0 {
			wrong = append(wrong, fmt.Sprintf("%q: of %v requests, %v have ended", name, n.GetOffered(), ended))
		}
		want(name, "offered", n.GetOffered(), "weft_requests_offered_total")
		want(name, "answered", n.GetAnswered(), "weft_requests_total", "code", "OK")
		want(name, "expired", n.GetExpired(), "weft_requests_total", "code", "DeadlineExceeded")
	}
	if !versions {
		return wrong
	}
	used := map[string]float64{} // by device
	for _, v := range a.GetVersions() {
		n, name, number := v.GetTotals(), v.GetModel(), strconv.Itoa(int(v.GetVersion()))
		of := func(what string, shown float64, metric string, labels ...string) {
			want(name, what, shown, metric, append(labels, "version", number)...)
		}
		of("seconds", n.GetBusySeconds(), "weft_device_busy_seconds_total")
		of("batches", n.GetBatches(), "weft_batch_flush_total")
		of("padded rows", n.GetPaddedRows(), "weft_padding_rows_total")
		for reason, count := range n.GetFlushes() {
			of("batches for "+reason, count, "weft_batch_flush_total", "reason", reason)
		}
	}
	for _, d := range state.GetDevices() {
		name, wall, charged := d.GetName(), d.GetBusyMs()/1e3, 0.
		for _, f := range state.GetFlows() {
			if f.GetDevice() == name {
				charged += f.GetChargedMs() / 1e3
			}
		}
		used[name] = sumOf(page, "weft_device_busy_seconds_total", "device", name)
		// The time to hand a batch to a process is no use of the device. On a busy machine it is long.
		if used[name] > wall*1.01 || used[name] < wall/2 || math.Abs(used[name]-charged) > used[name]/1e6 {
			wrong = append(wrong, fmt.Sprintf("versions used %s for %v s, flows were charged %v s, it was busy for %v s", name,
				used[name], charged, wall))
		}
	}
	for _, d := range a.GetDevices() {
		if shown := d.GetBusySeconds(); math.Abs(shown-used[d.GetName()]) > 1e-6 {
			wrong = append(wrong, fmt.Sprintf("%s was used for %v s on the page, by versions for %v s", d.GetName(), shown,
				used[d.GetName()]))
		}
	}
	return wrong
}

// activityOf returns what the live page is sent first.
func activityOf(t *testing.T, server string) *weftv1.Activity {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server+"/live/activity", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
			a := &weftv1.Activity{}
			if err := protojson.Unmarshal([]byte(data), a); err != nil {
				t.Fatal(err)
			}
			return a
		}
	}
	t.Fatal(lines.Err())
	return nil
}

// sumOf returns the sum of a metric's values that have some labels, given as names and values.
func sumOf(page map[string]*dto.MetricFamily, metric string, labels ...string) (sum float64) {
	for _, m := range page[metric].GetMetric() {
		have := map[string]string{}
		for _, l := range m.GetLabel() {
			have[l.GetName()] = l.GetValue()
		}
		all := true
		for i := 0; i < len(labels); i += 2 {
			all = all && have[labels[i]] == labels[i+1]
		}
		if all {
			sum += m.GetCounter().GetValue()
		}
	}
	return sum
}
