package app

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/worker"
)

// TestAHungWorkerIsNotReady: while the process of a model neither answers nor is replaced, its health, the server's if
// there is no other model, and GetModel say so; once it goes on, or another is there, they say that, and what happened.
func TestAHungWorkerIsNotReady(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for 12 seconds, which a process that was stopped may have lacked")
	}
	t.Parallel()
	if err := worker.Supported(); err != nil {
		t.Skip(err)
	}
	repository := t.TempDir()
	weighted(t, repository, "m", 10, 20, 30, 40)
	weftest.AddVersion(t, repository, "other", 1) // on another device
	weftest.SetManifest(t, repository, "other", quick)
	r := serveFrom(t, repository, nil)
	r.awaitReady(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*weftest.Patience)
	defer cancel()
	watch, err := healthgrpc.NewHealthClient(r.conn).Watch(ctx, &healthgrpc.HealthCheckRequest{Service: "m"})
	if err != nil {
		t.Fatal(err)
	}
	await := func(want healthgrpc.HealthCheckResponse_ServingStatus) {
		t.Helper()
		for {
			now, err := watch.Recv()
			if err != nil {
				t.Fatalf("wait for %v: %v", want, err)
			}
			if now.GetStatus() == want {
				return
			}
		}
	}
	version := func() *weftv1.ModelVersion {
		t.Helper()
		m, err := weftv1.NewModelServiceClient(r.conn).GetModel(ctx, &weftv1.GetModelRequest{Name: "m"})
		if err != nil {
			t.Fatal(err)
		}
		return m.GetModel().GetVersions()[0]
	}
	await(healthgrpc.HealthCheckResponse_SERVING)
	if v := version(); v.GetStalled() != "" || v.GetCrashes() != nil || v.GetReplicas()[0].GetRestarting() {
		t.Errorf("a model whose process works: %v", v)
	}
	signal := func(s syscall.Signal) {
		for _, pid := range weftest.Children(os.Getpid()) {
			_ = syscall.Kill(pid, s) // it may have ended already
		}
	}
	weftest.Until(t, "the model's process and the next one", func() bool {
		return len(weftest.Children(os.Getpid())) == 2
	})
	signal(syscall.SIGSTOP)
	weftest.Until(t, "the end of what they do", func() bool { return stopped(t, weftest.Children(os.Getpid())) })
	answered := make(chan error, 1)
	go func() {
		_, err := weftv1.NewPredictionServiceClient(r.conn).Predict(ctx, weftest.Request("m", 1))
		answered <- err
	}()
	await(healthgrpc.HealthCheckResponse_NOT_SERVING)
	if v := version(); v.GetState() != weftv1.VersionState_VERSION_STATE_READY || v.GetStalled() == "" {
		t.Errorf("a model whose process hangs: %v", v)
	}
	health := func() (said string) {
		t.Helper()
		code, text := r.get(t, "/readyz")
		whole, err := healthgrpc.NewHealthClient(r.conn).Check(ctx, &healthgrpc.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%d %s%v", code, text, whole.GetStatus())
	}
	weftest.Until(t, "the health of the server", func() bool { return health() == "200 ready\nSERVING" })
	if _, err := weftv1.NewAdminServiceClient(r.admin).UnloadVersion(ctx,
		&weftv1.UnloadVersionRequest{Model: "other", Version: 1}); err != nil {
		t.Error(err)
	}
	weftest.Until(t, "its health without the other", func() bool { return health() == "503 stalled\nNOT_SERVING" })
	if code, text := r.get(t, "/readyz/m"); code != http.StatusServiceUnavailable || text != "stalled\n" {
		t.Errorf("/readyz of the model: %d %q", code, text)
	}
	weftest.Until(t, "the end of the process that hangs", func() bool {
		return version().GetReplicas()[0].GetRestarting()
	})
	if v := version(); v.GetStalled() == "" {
		t.Errorf("a model whose process is started again after it hung: %v", v)
	}
	for since := time.Now(); ; signal(syscall.SIGCONT) { // a process may be started only now
		select {
		case err := <-answered:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Millisecond):
			if time.Since(since) < 2*weftest.Patience {
				continue
			}
			t.Error("the request is not answered")
		}
		break
	}
	await(healthgrpc.HealthCheckResponse_SERVING)
	v := version()
	if c := v.GetCrashes(); v.GetStalled() != "" || c.GetDeaths() != 1 ||
		!strings.Contains(c.GetLatestDeath(), "did not stop") || c.GetLatestDeathAt() == nil {
		t.Errorf("a model whose process was started again: %v", v)
	}
	weftest.Until(t, "the server's health again", func() bool { return health() == "200 ready\nSERVING" })
}

// stopped reports whether all threads of processes are stopped: on a busy machine some go on for a while after the
// signal.
func stopped(t *testing.T, pids []int) bool {
	t.Helper()
	for _, pid := range pids {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(threads) == 0 {
			t.Fatalf("the threads of process %d: %v", pid, err)
		}
		for _, name := range threads {
			text, _ := os.ReadFile(name)
			if _, state, _ := strings.Cut(string(text), ") "); !strings.HasPrefix(state, "T") {
				return false
			}
		}
	}
	return true
}
