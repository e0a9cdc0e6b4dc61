package app

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/runtime/worker"
	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/shell"
)

// TestRunsEndWithACutStop: once the stop is cut short, a run that goes on in a worker is not waited for, however long
// it may take.
func TestRunsEndWithACutStop(t *testing.T) {
	if err := worker.Supported(); err != nil {
		t.Skip(err)
	}
	repository, log := t.TempDir(), &weftest.Log{}
	weighted(t, repository, "m", 10, 20, 30, 40)
	_, listing, err := scan(&Settings{Repositories: []string{repository}}, slog.New(log))
	if err != nil {
		t.Fatal(err)
	}
	s := config.DefaultServer()
	h, err := newHouse(&s, slog.New(log), nil, host.Config{}, shell.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.models.Reconcile(t.Context(), listing); err != nil {
		t.Fatal(err)
	}
	weftest.Until(t, "the model's process and the next one", func() bool {
		return len(weftest.Children(os.Getpid())) == 2
	})
	for _, pid := range weftest.Children(os.Getpid()) {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	weftest.Until(t, "the end of what they do", func() bool { return stopped(t, weftest.Children(os.Getpid())) })
	ended := make(chan error, 1)
	go func() {
		ended <- h.models.Predict(context.Background(), &catalog.Call{
			Version: h.models.Snapshot().Model("m").Versions[0], Rows: 1,
			Inputs: []tensor.Tensor{weftest.Floats(tensor.Shape{1, 4}, 1, 2, 3, 4)},
		})
	}()
	weftest.Until(t, "its run", func() bool {
		return slices.ContainsFunc(h.scheduler.State().Devices,
			func(d sharedsched.DeviceState) bool { return d.InFlight > 0 })
	})
	ctx, cut := context.WithCancelCause(t.Context())
	cut(errCut)
	if err := h.close(ctx); err != nil && !errors.Is(err, errCut) {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("the request was answered by a process that is stopped")
	}
	if late := log.Lines("a run did not stop"); len(late) > 0 {
		t.Errorf("the run was waited for: %q", late)
	}
}
