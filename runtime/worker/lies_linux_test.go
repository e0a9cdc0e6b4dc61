package worker_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelfile"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/runtime/worker"
	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/shell"
)

// wantedLies returns how many lies are told.
func wantedLies() int64 {
	if testing.Short() {
		return 2000
	}
	return int64(weftest.Times(5000, 20_000))
}

// stage is a host whose models run in workers that lie if their model has them.
type stage struct {
	t     *testing.T
	host  *host.Host
	pool  *worker.Pool
	log   *weftest.Log
	tally string
	seeds atomic.Uint64
	list  modelrepo.Listing
}

func newStage(t *testing.T) *stage {
	t.Helper()
	b := &stage{t: t, log: &weftest.Log{}, tally: filepath.Join(t.TempDir(), "tally")}
	if err := os.WriteFile(b.tally, make([]byte, 8), 0o600); err != nil {
		t.Fatal(err)
	}
	b.pool = worker.NewPool(worker.Config{
		Command: lies, Library: func() (string, error) { return "", nil }, Log: slog.New(b.log), Memory: 1 << 30,
	})
	b.pool.SetOpenPatience(3 * time.Second)
	b.host = host.New(host.Config{
		Logger: slog.New(b.log), Read: noFiles, Open: b.open, Lanes: map[string]int{"cpu": 2}, RunTimeout: 2 * time.Second,
		MaxAnswer: 1 << 20, Sites: func(modelrepo.Version, *modelrepo.Manifest) ([]host.Site, error) {
			return []host.Site{{Device: "cpu"}}, nil
		},
	})
	s, err := shell.New(sharedsched.Config{Devices: []sharedsched.Device{{Name: "cpu", Class: "cpu", Lanes: 2}}}, b.host,
		shell.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b.host.Attach(s)
	t.Cleanup(func() {
		b.pool.Close()
		_ = b.host.Close(context.Background())
		s.Close()
	})
	return b
}

func noFiles(context.Context, modelrepo.Version, func(done, of int64)) (*modelfile.Files, error) {
	return nil, nil
}

func (b *stage) open(ctx context.Context, v modelrepo.Version, _ *modelfile.Files, _ *modelrepo.Manifest, _ string,
	try engine.Try,
) (engine.Opened, error) {
	m := model{Opens: strings.TrimPrefix(filepath.Base(filepath.Dir(v.Dir)), "honest"), Tally: b.tally}
	m.Seed = b.seeds.Add(1)
	return b.pool.Open(ctx, worker.Place{
		Device: "cpu", Version: fmt.Sprintf("%s/%d", v.Model, v.Number), Alone: true,
	}, m, nil, try)
}

// serve has version n of a model, named as it opens, served in the place of others.
func (b *stage) serve(name string, n int64) {
	b.t.Helper()
	dir := filepath.Join("/models", name)
	v := modelrepo.Version{Model: name, Number: n, Dir: filepath.Join(dir, strconv.FormatInt(n, 10)), Fingerprint: "first"}
	v.Path = filepath.Join(v.Dir, modelrepo.ModelFile)
	m := modelrepo.Model{
		Name: name, Dir: dir, Manifest: modelrepo.Defaults(), Versions: []modelrepo.Version{v},
		Selected: []modelrepo.Version{v},
	}
	m.Manifest.Batching.MaxBatchSize = 4
	if strings.HasPrefix(name, worker.Lies) {
		m.Manifest.Batching.Audit, m.Manifest.Batching.Mode = 0.5, modelrepo.BatchAuto
		if n%2 == 0 {
			m.Manifest.Batching.Mode = modelrepo.BatchOn
		}
	}
	var others []modelrepo.Model
	for _, other := range b.list.Models {
		if other.Name != name {
			others = append(others, other)
		}
	}
	b.list = modelrepo.Listing{Models: append(others, m)}
	_ = b.host.Reconcile(b.t.Context(), b.list) // a liar's may fail
}

// ask asks a model for rows, and reports whether it was answered, and rightly.
func (b *stage) ask(name string, rng *rand.Rand, rows int) (right bool, err error) {
	m := b.host.Snapshot().Model(name)
	if m == nil || len(m.Versions) == 0 || m.Versions[0].Signature == nil {
		return false, catalog.ErrNotReady
	}
	data := make([]byte, 4*rows)
	for i := range rows {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(float32(rng.IntN(1000))))
	}
	c := &catalog.Call{Version: m.Versions[0], Rows: rows, Inputs: []tensor.Tensor{
		{DType: tensor.Float32, Shape: tensor.Shape{int64(rows)}, Data: data},
	}}
	if len(c.Version.Signature.Inputs) != len(c.Inputs) {
		return false, catalog.ErrNotReady
	}
	if _, err := c.Version.Signature.Rows(c.Inputs); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), weftest.Patience)
	defer cancel()
	if err := b.host.Predict(ctx, c); err != nil {
		return false, err
	}
	got := floatsOf(c.Results[0].Data)
	for i, x := range floatsOf(data) {
		if len(got) != rows || got[i] != 2*x {
			return false, nil
		}
	}
	return true, nil
}

// TestAWorkerThatLies harms nobody else: models of other workers are answered, files that others opened stay open, and
// nothing is left behind.
func TestAWorkerThatLies(t *testing.T) {
	b := newStage(t)
	b.serve("honest", 1)
	files, goroutines := b.holds()
	ctx, end := context.WithCancel(t.Context())
	var innocents sync.WaitGroup
	var right, opened, answered, refused atomic.Int64
	for i := range uint64(2) {
		innocents.Go(func() {
			rng := rand.New(rand.NewPCG(1, i))
			for ; ctx.Err() == nil; right.Add(1) {
				if ok, err := b.ask("honest", rng, 1+rng.IntN(10)); err != nil || !ok {
					t.Errorf("an innocent got %v, right %t", err, ok)
					return
				}
			}
		})
	}
	innocents.Go(func() {
		for ; ctx.Err() == nil; opened.Add(1) {
			keepOpen(t)
		}
	})
	for n := int64(1); b.told() < wantedLies(); n++ {
		name := []string{worker.Lies, worker.LiesLater, worker.LiesLater}[n%3]
		b.serve(name, n)
		var callers sync.WaitGroup
		for c := range uint64(4) {
			callers.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(n), c))
				for range 25 {
					if _, err := b.ask(name, rng, 1+rng.IntN(10)); err == nil {
						answered.Add(1)
					} else {
						refused.Add(1)
					}
				}
			})
		}
		callers.Wait()
	}
	end()
	innocents.Wait()
	died := len(b.log.Event("worker_died"))
	t.Logf("%d lies, %d deaths; to callers of liars %d answers, %d refusals; to others %d right answers; %d files opened",
		b.told(), died, answered.Load(), refused.Load(), right.Load(), opened.Load())
	if died == 0 || answered.Load() == 0 || right.Load() == 0 {
		t.Error("nothing was tried")
	}
	b.list.Models = b.list.Models[:1]
	if err := b.host.Reconcile(t.Context(), b.list); err != nil {
		t.Error(err)
	}
	weftest.Until(t, "as little as before", func() bool {
		nowFiles, nowGoroutines := b.holds()
		return nowFiles <= files+4+b.pool.Lanes() && nowGoroutines <= goroutines+4
	})
}

// told returns the number of lies.
func (b *stage) told() int64 {
	b.t.Helper()
	n, err := os.ReadFile(b.tally)
	if err != nil {
		b.t.Fatal(err)
	}
	return int64(binary.LittleEndian.Uint64(n))
}

// holds returns how many files and goroutines there are.
func (b *stage) holds() (files, goroutines int) {
	b.t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		b.t.Fatal(err)
	}
	return len(all), runtime.NumGoroutine()
}

// keepOpen opens a file, and looks whether it is the same until it is closed.
func keepOpen(t *testing.T) {
	fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Error(err)
		return
	}
	var is, was unix.Stat_t
	_ = unix.Fstat(fd, &was)
	<-time.After(100 * time.Microsecond)
	if err := unix.Fstat(fd, &is); err != nil || is.Rdev != was.Rdev {
		t.Errorf("somebody closed a file that another one had opened: %v", err)
	}
	if err := unix.Close(fd); err != nil {
		t.Errorf("somebody closed a file that another one had opened: %v", err)
	}
}
