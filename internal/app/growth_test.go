package app

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// growthVariable is how many requests TestNothingGrows sends; the figures of docs/bench are those of a million.
const growthVariable = "WEFT_GROWTH_REQUESTS"

// TestNothingGrows sends requests whose names are random: of models, versions, labels, episodes, requests, traces,
// methods and paths. Three viewers look on, and one request in a hundred is traced. After the first quarter neither the
// page of metrics nor the memory of the process, client included, grows.
func TestNothingGrows(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 5 seconds")
	}
	requests := 20_000
	if text := os.Getenv(growthVariable); text != "" {
		var err error
		if requests, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", growthVariable, err)
		}
	}
	traceInto(t, "parentbased_traceidratio")
	t.Setenv("OTEL_TRACES_EXPORTER", "nowhere")
	t.Setenv("OTEL_TRACES_SAMPLER_ARG", "0.01")
	r := serve(t, map[string]string{
		"quick": `{synth: {base: 100us, per_row: 1us, ` + tensors + `}, versions: {labels: {stable: 1}}}`,
	})
	r.awaitReady(t)
	for range 3 {
		resp, err := http.Get(r.http + "/live/activity")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		go func() { _, _ = io.Copy(io.Discard, resp.Body) }()
	}

	const parts = 4
	var sizes [parts]size
	var sent atomic.Int64
	for part := range parts {
		var callers sync.WaitGroup
		for i := range 16 {
			c := stranger{r, rand.New(rand.NewPCG(uint64(part), uint64(i)))}
			callers.Go(func() {
				for sent.Add(1) <= int64((part+1)*requests/parts) {
					c.ask(t.Context())
				}
			})
		}
		callers.Wait()
		sent.Store(int64((part + 1) * requests / parts))
		sizes[part] = r.size(t)
		t.Logf("after %d requests: %+v", sent.Load(), sizes[part])
	}
	// What is remembered of the latest requests takes some 60 MB, and is full after the first part of a long test.
	slack := int64(8 << 20)
	if requests < 1_000_000 {
		slack = 60 << 20
	}
	first, last := sizes[0], sizes[parts-1]
	if last.lines > first.lines || last.heap > first.heap+slack {
		t.Errorf("it grew from %+v to %+v", first, last)
	}
}

// size is what a server takes.
type size struct {
	lines          int   // of its page of metrics
	heap, resident int64 // bytes
}

// size returns it once nothing is on its way.
func (r *running) size(t *testing.T) (s size) {
	t.Helper()
	weftest.Until(t, "a server at rest", func() bool {
		return sumOf(metricsOf(t, r.http), "weft_requests_in_flight") == 0
	})
	runtime.GC()
	runtime.GC() // what pools keep
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s.heap = int64(m.HeapAlloc)
	_, page := r.get(t, "/metrics")
	s.lines = strings.Count(page, "\n")
	status, err := os.Open("/proc/self/status")
	if err != nil {
		return s // no Linux
	}
	defer status.Close()
	for lines := bufio.NewScanner(status); lines.Scan(); {
		if text, is := strings.CutPrefix(lines.Text(), "VmRSS:"); is {
			_, _ = fmt.Sscan(text, &s.resident) // kB
			s.resident <<= 10
		}
	}
	return s
}

// stranger asks for what there is and what there is not.
type stranger struct {
	*running
	rng *rand.Rand
}

func (s *stranger) name() string { return fmt.Sprintf("%016x%016x", s.rng.Uint64(), s.rng.Uint64()) }

func (s *stranger) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "x-"+s.name(), s.name())
	if s.rng.IntN(50) == 0 {
		ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", "00-"+s.name()+"-"+s.name()[:16]+"-01")
	}
	predict := weftv1.NewPredictionServiceClient(s.conn)
	q := weftest.Request("quick", 1)
	q.RequestId, q.EpisodeId, q.EndOfEpisode = s.name(), s.name(), s.rng.IntN(2) == 0
	switch s.rng.IntN(20) {
	default:
	case 0, 1, 2, 3, 4, 5:
		q.Model.Name = s.name()
	case 6:
		q.Model.VersionChoice = &weftv1.ModelSpec_Version{Version: int64(s.rng.Uint64() >> 1)}
	case 7:
		q.Model.VersionChoice = &weftv1.ModelSpec_Label{Label: s.name()}
	case 8:
		q.Inputs = map[string]*weftv1.Tensor{s.name(): q.GetInputs()["x"]}
	case 9:
		_ = s.conn.Invoke(ctx, "/"+s.name()+"/"+s.name(), &emptypb.Empty{}, &emptypb.Empty{})
		return
	case 10:
		if resp, err := http.Get(s.http + "/" + s.name()); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		return
	case 11:
		_, _ = weftv1.NewModelServiceClient(s.conn).ExplainRequest(ctx,
			&weftv1.ExplainRequestRequest{Request: s.name()})
		return
	case 12:
		_, _ = predict.ReportOutcome(ctx, &weftv1.ReportOutcomeRequest{Model: q.GetModel(), EpisodeId: s.name()})
		return
	}
	_, _ = predict.Predict(ctx, q)
}
