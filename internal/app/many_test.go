package app

import (
	"fmt"
	"runtime"
	"testing"

	"google.golang.org/grpc"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weftserve/weft/internal/race"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// manyModels makes a repository of so many synthetic models.
func manyModels(t testing.TB, models int) (repository string) {
	t.Helper()
	repository = t.TempDir()
	for i := range models {
		name := fmt.Sprintf("model-%04d", i)
		weftest.AddVersion(t, repository, name, 1)
		weftest.SetManifest(t, repository, name, `synth: {base: 0s, `+tensors+`}`)
	}
	return repository
}

// unwatched has the repository looked at only at the start.
func unwatched(c *App) { c.WatchInterval = 0 }

// manyOperations are the operations on a server of many models that is at rest.
func manyOperations(t testing.TB, r *running, repository string) map[string]func() {
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	models, admin := weftv1.NewModelServiceClient(r.conn), weftv1.NewAdminServiceClient(r.admin)
	return map[string]func(){
		"list": func() {
			_, err := models.ListModels(ctx, &weftv1.ListModelsRequest{}, grpc.MaxCallRecvMsgSize(64<<20))
			must(err)
		},
		"state": func() {
			_, err := models.GetSchedulerState(ctx, &weftv1.GetSchedulerStateRequest{}, grpc.MaxCallRecvMsgSize(64<<20))
			must(err)
		},
		"scrape": func() { r.get(t, "/metrics") },
		"health": func() {
			_, err := healthgrpc.NewHealthClient(r.conn).Check(ctx,
				&healthgrpc.HealthCheckRequest{Service: "model-0007"})
			must(err)
		},
		"poll": func() {
			opened, err := modelrepo.Open(repository)
			must(err)
			must(new(opened.Scan()).Err())
		},
		"traffic": func() {
			_, err := admin.SetTraffic(ctx, &weftv1.SetTrafficRequest{Model: "model-0007", Traffic: &weftv1.Traffic{
				Split: []*weftv1.TrafficSlot{{Slot: "a", Version: 1, Weight: 1}},
			}})
			must(err)
			// by the new traffic
			_, err = weftv1.NewPredictionServiceClient(r.conn).Predict(ctx, weftest.Request("model-0007", 1))
			must(err)
		},
		"label": func() {
			_, err := admin.SetLabel(ctx, &weftv1.SetLabelRequest{Model: "model-0007", Label: "stable", Version: 1})
			must(err)
		},
	}
}

// BenchmarkManyModels measures the start and stop of a server of many models, and the operations on such a one.
func BenchmarkManyModels(b *testing.B) {
	for _, models := range []int{100, 1000} {
		repository := manyModels(b, models)
		b.Run(fmt.Sprintf("start/models=%d", models), func(b *testing.B) {
			for range b.N {
				b.StartTimer()
				r := serveFrom(b, repository, unwatched)
				r.awaitReady(b)
				b.StopTimer()
				r.end(b)
			}
		})
		b.Run(fmt.Sprintf("stop/models=%d", models), func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				r := serveFrom(b, repository, unwatched)
				r.awaitReady(b)
				b.StartTimer()
				r.end(b)
			}
		})
		r := serveFrom(b, repository, unwatched)
		r.awaitReady(b)
		for name, do := range manyOperations(b, r, repository) {
			b.Run(fmt.Sprintf("%s/models=%d", name, models), func(b *testing.B) {
				for b.Loop() {
					do()
				}
			})
		}
	}
}

// end stops the server.
func (r *running) end(t testing.TB) {
	t.Helper()
	r.stop()
	err := <-r.result
	if err != nil {
		t.Errorf("the server ended with: %v", err)
	}
	r.result <- err // for a later look at the result
}

// TestManyModelsTakeLinearTime starts, asks and stops servers of some models and of ten times as many, and compares the
// memory allocated, which unlike time is nearly the same in each run: work for every pair of models would show a
// hundredfold.
func TestManyModelsTakeLinearTime(t *testing.T) {
	race.Skip(t, "a minute under the race detector, which allocates too; other tests do the same with fewer models")
	if testing.Short() {
		t.Skip("some seconds, most of which are the start of 220 models")
	}
	const few, many = 20, 200
	taken := map[int]map[string]float64{}
	for _, models := range []int{few, many} {
		repository := manyModels(t, models)
		bytes := map[string]float64{}
		measure := func(what string, do func()) { // the least of several, as others of the process allocate too
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			do()
			runtime.ReadMemStats(&after)
			took := float64(after.TotalAlloc - before.TotalAlloc)
			if least, before := bytes[what]; !before || took < least {
				bytes[what] = took
			}
		}
		var r *running
		measure("start", func() {
			r = serveFrom(t, repository, unwatched)
			r.awaitReady(t)
		})
		for name, do := range manyOperations(t, r, repository) {
			do()
			for range 3 {
				measure(name, do)
			}
		}
		measure("stop", func() { r.end(t) })
		taken[models] = bytes
	}
	for what, bytes := range taken[many] {
		most := 10.0
		if what == "traffic" || what == "label" || what == "health" {
			most = 1 // of one model
		}
		ratio := bytes / taken[few][what]
		t.Logf("%s: %.0f KiB for %d models, %.0f KiB for %d: %.1f times", what, taken[few][what]/1024, few, bytes/1024,
			many, ratio)
		if ratio > 2*most {
			t.Errorf("%s: ten times the models take %.1f times the memory, want about %.0f", what, ratio, most)
		}
	}
}
