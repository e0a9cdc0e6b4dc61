package activity_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/activity"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/schedtest"
	"github.com/weftserve/weft/sharedsched/shell"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kind is a version of the test's server.
type kind struct {
	model   string
	version int64
	target  time.Duration
	id      sharedsched.VersionID
}

// house is a scheduler with made-up models, observed by a log.
type house struct {
	log    *activity.Log
	sched  *shell.Scheduler
	kinds  []*kind
	number uint64
	slow   time.Duration // of a batch of the heavy model, from then on
	mu     sync.Mutex
	events []predict.Event // guarded by mu, as number
}

// newHouse runs in a synctest bubble. A batch takes a millisecond, and each row of "rank" five.
func newHouse(t *testing.T, lanes int) *house {
	t.Helper()
	h := &house{log: activity.New()}
	sched, err := shell.New(sharedsched.Config{
		Devices: []sharedsched.Device{{Name: "gpu", Lanes: lanes}},
	}, schedtest.Executor(func(b *sharedsched.Batch) time.Duration {
		took := time.Millisecond
		if b.Version == h.kinds[2].id {
			took += 5*time.Millisecond*time.Duration(b.Padded) + h.slow
		}
		return took
	}), shell.Options{Observer: h.log})
	if err != nil {
		t.Fatal(err)
	}
	h.sched = sched
	snapshot := &catalog.Snapshot{}
	for _, k := range []*kind{
		{model: "pick", version: 7, target: 20 * time.Millisecond},
		{model: "pick", version: 8, target: 20 * time.Millisecond},
		{model: "rank", version: 12, target: 300 * time.Millisecond},
	} {
		flow, err := sched.AddFlow(fmt.Sprint(k.model, k.version), "gpu", 1)
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("%s/%d", k.model, k.version)
		k.id, err = sched.AddVersion(name, flow, sharedsched.Settings{
			Batched: true, MaxBatchSize: 32, MaxRequestRows: 32, MaxQueue: 64, TargetLatency: k.target,
		})
		if err != nil {
			t.Fatal(err)
		}
		h.kinds = append(h.kinds, k)
		v := &catalog.Version{
			Model: k.model, Number: k.version, State: catalog.Ready, Device: "gpu", Weight: 1, TargetLatency: k.target,
			Replicas: []catalog.Replica{{Device: "gpu", Scheduler: int32(k.id)}},
		}
		m := snapshot.Model(k.model)
		if m == nil {
			m = &catalog.Model{Name: k.model}
			snapshot.Models = snapshot.Models.With(k.model, m)
		}
		m.Versions = append(m.Versions, v)
	}
	h.log.Watch(activity.Config{
		Models: func() *catalog.Snapshot { return snapshot }, State: sched.State, VersionName: sched.VersionName,
		Epoch: sched.Epoch(),
	})
	t.Cleanup(sched.Close)
	return h
}

// ask sends a request and waits for its end, as the pipeline does.
func (h *house) ask(ctx context.Context, k *kind, id string, rows int, limit time.Duration) {
	h.mu.Lock()
	h.number++
	e := predict.Event{Number: h.number, ID: id, Model: k.model, Version: k.version, Arrived: time.Now(), Target: k.target}
	h.mu.Unlock()
	task := sharedsched.Task{Rows: rows}
	if limit > 0 {
		e.Limit = e.Arrived.Add(limit)
		task.Limit = e.Limit
	}
	out, err := h.sched.Do(ctx, k.id, &task)
	e.Execution = predict.Execution{Rows: rows, Outcome: out}
	e.Code, e.Ending = "OK", predict.Answered
	refusal, refused := errors.AsType[*sharedsched.Refusal](err)
	switch {
	case refused:
		e.Code, e.Ending, e.Reason = "ResourceExhausted", predict.Refused, refusal.Reason.String()
	case errors.Is(err, context.Canceled):
		e.Code, e.Ending, e.Reason = "Canceled", predict.Cancelled, "CANCELLED"
	case err != nil:
		e.Code, e.Ending, e.Reason = "DeadlineExceeded", predict.Expired, "EXPIRED"
	}
	e.Ended = time.Now()
	e.Duration = e.Ended.Sub(e.Arrived)
	h.log.RequestDone(ctx, &e)
	h.mu.Lock()
	h.events = append(h.events, e)
	h.mu.Unlock()
}

// load asks for a while as a seed says: small requests often, heavy ones sometimes, some with little time, and some
// whose callers leave. It returns when all have ended.
func (h *house) load(ctx context.Context, seed uint64, howLong time.Duration) {
	rng := rand.New(rand.NewPCG(seed, 1))
	var all sync.WaitGroup
	for end := time.Now().Add(howLong); time.Now().Before(end); {
		<-time.After(time.Duration(rng.IntN(4000)) * time.Microsecond)
		k := h.kinds[rng.IntN(2)]
		if rng.IntN(12) == 0 {
			k = h.kinds[2]
		}
		rows, limit := 1+rng.IntN(4), time.Duration(0)
		if rng.IntN(5) == 0 {
			limit = time.Duration(1+rng.IntN(30)) * time.Millisecond
		}
		leave, id := time.Duration(0), fmt.Sprintf("robot-%d", rng.IntN(1000))
		if rng.IntN(20) == 0 {
			leave = time.Duration(rng.IntN(8)) * time.Millisecond
		}
		all.Go(func() {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			if leave > 0 {
				defer time.AfterFunc(leave, cancel).Stop()
			}
			h.ask(ctx, k, id, rows, limit)
		})
	}
	all.Wait()
}
