//go:build linux

package poison

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// innocent is a model whose callers must not notice what others do. Its input x has four columns.
type innocent struct {
	name     string
	sketch   string // "": it is synthetic
	manifest string
	value    func(row [4]float32) []float32 // of the answer
}

var innocents = []innocent{
	{"double", "x[N,4]; Add(x, x)", "", func(r [4]float32) []float32 {
		return []float32{2 * r[0], 2 * r[1], 2 * r[2], 2 * r[3]}
	}},
	{"sums", "x[N,4]; MatMul(x, f<4,2>[1,10])", "batching: {max_batch_size: 8}", func(r [4]float32) []float32 {
		sum := r[0] + r[1] + r[2] + r[3]
		return []float32{sum, 10 * sum}
	}},
	{
		"rounds", "x[N,4]; Loop{body=(i:i64[],c:b[],s)=>(Identity(c), Add(s, 1.0))}(500, _, x)",
		"batching: {max_batch_size: 8}",
		func(r [4]float32) []float32 { return []float32{r[0] + 500, r[1] + 500, r[2] + 500, r[3] + 500} },
	},
	// A row of the least integer and -1 ends the process by SIGFPE.
	{
		"ratios", "x[N,4]; i = Cast{to=7}(x); y = Div(Slice(i, [0], [1], [1]), Slice(i, [1], [2], [1])); Cast{to=1}(y)",
		"batching: {max_batch_size: 8}",
		func(r [4]float32) []float32 { return []float32{float32(int64(r[0]) / int64(r[1]))} },
	},
	{"synthetic", "", "{synth: {base: 1ms, " + weftest.Tensors + "}, batching: {mode: on}}", nil},
}

// addInnocents fills a repository.
func addInnocents(t testing.TB, models []innocent) (repository string) {
	t.Helper()
	repository = t.TempDir()
	for _, m := range models {
		if m.sketch == "" {
			weftest.AddVersion(t, repository, m.name, 1)
			weftest.SetManifest(t, repository, m.name, m.manifest)
		} else {
			addModel(t, repository, m.name, m.sketch, m.manifest)
		}
	}
	return repository
}

// call is one request of an innocent caller.
type call struct{ start, end time.Time }

// load is callers of innocents; each asks again as soon as it is answered.
type load struct {
	t       testing.TB
	server  *server
	end     context.CancelFunc
	callers sync.WaitGroup
	answers []atomic.Int64 // of each caller
	lost    atomic.Int64   // requests without an answer, or with a wrong one

	mu    sync.Mutex
	calls []call        // guarded by mu; of ONNX models
	heard chan struct{} // guarded by mu; closed, and another one, when somebody is answered
}

// innocentLimit is the limit of the callers.
const innocentLimit = 2 * weftest.Patience

// callInnocents starts so many callers of each model. stop must follow.
func callInnocents(s *server, each int) *load {
	ctx, end := context.WithCancel(context.Background())
	l := &load{
		t: s.t, server: s, end: end, answers: make([]atomic.Int64, each*len(innocents)), heard: make(chan struct{}),
	}
	for i := range l.answers {
		m := &innocents[i%len(innocents)]
		l.callers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 3))
			for ctx.Err() == nil {
				start := time.Now()
				if err := l.ask(ctx, m, rng); err != nil && ctx.Err() == nil {
					l.lost.Add(1)
					l.t.Errorf("%s: %v", m.name, err)
				}
				l.answered(i, m, call{start, time.Now()})
			}
		})
	}
	return l
}

func (l *load) answered(caller int, m *innocent, c call) {
	l.answers[caller].Add(1)
	if m.sketch != "" {
		l.mu.Lock()
		l.calls = append(l.calls, c)
		l.mu.Unlock()
	}
	l.tell()
}

// tell wakes a caller that waits for an answer.
func (l *load) tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.heard)
	l.heard = make(chan struct{})
}

// ask asks a model and checks its answer.
func (l *load) ask(ctx context.Context, m *innocent, rng *rand.Rand) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), innocentLimit)
	defer cancel()
	rows := 1 + rng.IntN(3)
	var values, want []float32
	for range rows {
		row := [4]float32{}
		for i := range row {
			row[i] = float32(1 + rng.IntN(100))
		}
		values = append(values, row[:]...)
		if m.value != nil {
			want = append(want, m.value(row)...)
		}
	}
	answer, err := weftv1.NewPredictionServiceClient(l.server.conn).Predict(ctx, floatRequest(m.name, values),
		grpc.WaitForReady(false))
	if err != nil {
		return err
	}
	for _, out := range answer.GetOutputs() {
		if got := out.GetFloatValues(); m.value != nil && !slices.Equal(got, want) {
			return fmt.Errorf("of %v: got %v, want %v", values, got, want)
		}
		return nil
	}
	return errors.New("an answer without outputs")
}

// floatRequest asks a model with rows of four.
func floatRequest(model string, values []float32) *weftv1.PredictRequest {
	r := weftest.Request(model, 0)
	x := r.GetInputs()["x"]
	x.Shape, x.FloatValues = []int64{int64(len(values) / 4), 4}, values
	return r
}

// more waits until each caller was answered so often again.
func (l *load) more(times int64) {
	l.t.Helper()
	before := make([]int64, len(l.answers))
	for i := range before {
		before[i] = l.answers[i].Load()
	}
	for {
		heard := l.hear()
		all := true
		for i := range before {
			all = all && l.answers[i].Load() >= before[i]+times
		}
		if all {
			return
		}
		<-heard
	}
}

// stop lets the requests in flight end.
func (l *load) stop() (answers int64) {
	l.end()
	l.callers.Wait()
	for i := range l.answers {
		answers += l.answers[i].Load()
	}
	return answers
}

// longest returns the longest wait of a caller of an ONNX model for an answer, of requests in flight in a span of time.
func (l *load) longest(from, to time.Time) (most time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range slices.Backward(l.calls) {
		if c.end.Before(from.Add(-innocentLimit)) {
			break
		}
		if c.end.After(from) && c.start.Before(to) {
			most = max(most, c.end.Sub(c.start))
		}
	}
	return most
}

// next waits for so many further answers to anybody.
func (l *load) next(answers int) {
	for range answers {
		<-l.hear()
	}
}

// hear returns a channel that is closed when somebody is answered next: an answer or an error comes by its limit.
func (l *load) hear() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heard
}
