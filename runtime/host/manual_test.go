package host_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/sharedsched"
)

// manual is a scheduler whose batches the test composes: it keeps tasks until so many are there and runs them as one
// batch, but runs those of warm-up and proof at once.
type manual struct {
	host         *host.Host
	size, padded int // of the next batch: its tasks, and the least rows of the execution
	arrived      chan struct{}
	formed       func() // is called between the forming of a batch and its execution; may be nil

	mu      sync.Mutex
	waiting []*manualTask // guarded by mu
	report  sharedsched.Report

	settings sharedsched.Settings // of the latest Configure
	moved    []bool               // of each Inherit
}

type manualTask struct {
	task *sharedsched.Task
	done chan error
}

func (m *manual) AddFlow(string, string, float64) (sharedsched.FlowID, error) { return 0, nil }
func (m *manual) RemoveFlow(sharedsched.FlowID)                               {}
func (m *manual) AddVersion(string, sharedsched.FlowID, sharedsched.Settings) (sharedsched.VersionID, error) {
	return 0, nil
}

func (m *manual) Configure(_ sharedsched.VersionID, s sharedsched.Settings) error {
	m.settings = s
	return nil
}
func (m *manual) Expel(sharedsched.VersionID)                                {}
func (m *manual) Inherit(_, _ sharedsched.VersionID, moved bool)             { m.moved = append(m.moved, moved) }
func (m *manual) RemoveVersion(context.Context, sharedsched.VersionID) error { return nil }
func (m *manual) RenewDevice(string) error                                   { return nil }
func (m *manual) Abandoned() <-chan struct{}                                 { return nil }

func (m *manual) Do(_ context.Context, v sharedsched.VersionID, t *sharedsched.Task) (sharedsched.Outcome, error) {
	if t.Alone {
		b := sharedsched.Batch{
			Version: v, Spans: []sharedsched.Span{{Payload: t.Payload, Rows: t.Rows}}, Rows: t.Rows,
			Padded: t.Rows, Alone: true,
		}
		m.host.Execute(&b)
		return sharedsched.Outcome{Compute: 1}, b.Spans[0].Err
	}
	own := &manualTask{t, make(chan error, 1)}
	m.mu.Lock()
	m.waiting = append(m.waiting, own)
	m.arrived <- struct{}{}
	if len(m.waiting) == m.size {
		b := sharedsched.Batch{Version: v}
		for _, w := range m.waiting {
			b.Spans = append(b.Spans, sharedsched.Span{Payload: w.task.Payload, Rows: w.task.Rows})
			b.Rows += w.task.Rows
		}
		b.Padded = max(b.Rows, m.padded)
		if m.formed != nil {
			m.formed()
		}
		m.report = m.host.Execute(&b)
		for i, w := range m.waiting {
			w.done <- b.Spans[i].Err
		}
		m.waiting = nil
	}
	m.mu.Unlock()
	return sharedsched.Outcome{}, <-own.done
}

// bench is a host with one ready, batched version and a manual scheduler.
type bench struct {
	*world
	f     *fake
	v     *catalog.Version
	sched *manual
}

func newBench(t *testing.T, f *fake, change func(*modelrepo.Manifest)) *bench {
	t.Helper()
	b := &bench{
		world: &world{t: t, engines: map[string]any{}, logs: &weftest.Log{}}, f: f,
		sched: &manual{arrived: make(chan struct{}, 1)},
	}
	b.Host = host.New(host.Config{Open: b.open, Logger: slog.New(b.logs)})
	b.sched.host = b.Host
	b.Attach(b.sched)
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	b.add("m", 1, f, change)
	b.v = b.load("m")
	if !b.v.Batching.Batched {
		t.Fatalf("%v %s, not batched: %s", b.v.State, b.v.Cause, b.v.Batching.Reason)
	}
	f.Forget()
	return b
}

// together runs the calls, in their order, as one batch of at least padded rows. It returns their errors and the sizes
// of the runs that it took.
func (b *bench) together(padded int, calls []*catalog.Call) (errs []error, runs []int) {
	b.sched.size, b.sched.padded = len(calls), padded
	errs = make([]error, len(calls))
	var wg sync.WaitGroup
	for i, c := range calls {
		c.Version = b.v
		wg.Go(func() { errs[i] = b.Predict(b.t.Context(), c) })
		<-b.sched.arrived
	}
	wg.Wait()
	return errs, b.f.Forget()
}
