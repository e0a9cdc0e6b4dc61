package worker_test

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/internal/owntime"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/runtime/worker"
)

// TestPatienceIsOfTheProcess: a process that is stopped for longer than its run, and a question whether it lives, may
// take, is not ended, and the run is answered. One whose run sleeps for ever, or computes for ever, is.
func TestPatienceIsOfTheProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("it stops a process for seconds")
	}
	const patience, pause = 300 * time.Millisecond, 1500 * time.Millisecond
	clock := owntime.New()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	go clock.Run(ctx)
	p, log := newPoolOf(t, worker.Config{Clock: clock}.Hasten())
	o := open(t, p)
	pid := pidOf(t, o)
	ask := func(value float32) error {
		b := tensor.NewBatch(1, 1, o.Memory)
		defer b.Free()
		b.Patience = patience
		_, err := runIn(t.Context(), b, o, value)
		return err
	}
	met := make(chan error, 1)
	go func() { met <- ask(meeting) }()
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	<-clock.After(pause)
	if err := unix.Kill(pid, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := ask(meeting); err != nil {
		t.Errorf("after a pause: %v", err)
	}
	if err := <-met; err != nil {
		t.Errorf("in a pause: %v", err)
	}
	if died := log.Lines("worker_died"); len(died) > 0 {
		t.Errorf("a pause ended %q", died)
	}
	for _, how := range []float32{hanging, spinning} {
		began := time.Now()
		err := ask(how)
		t.Logf("ended after %v: %v", time.Since(began), err)
		if took := clock.Since(began); engine.KindOf(err) != engine.Crashed || took < patience {
			t.Errorf("a run that hangs ended after %v by %v", took, err)
		}
	}
}
