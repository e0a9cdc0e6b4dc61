package bench

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/weftserve/weft/internal/race"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/modelfile"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/synth"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// TestHotSwaps replaces a version twenty times (ten times under the race detector), each with the next number. With
// time to spare every request is answered, hardly later than without; when twice as many come as the device can serve,
// none fails but for lack of time or room. No sessions and no memory are left of the versions that went.
func TestHotSwaps(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 2 seconds")
	}
	const small = 8 / 0.028 // requests a second that full batches answer
	swaps := 20
	if race.Enabled {
		swaps = 10
	}
	for _, rate := range []float64{small / 4, 2 * small} {
		steady, _ := swapping(t, rate, 0)
		swapped, grown := swapping(t, rate, swaps)
		t.Logf("%d requests with %d swaps: %v", len(swapped), swaps, swapped)
		t.Logf("%d requests with none: %v", len(steady), steady)
		t.Logf("the heap grew by %d KiB", grown>>10)
		for _, c := range swapped {
			switch c.end {
			case answered:
			case sharedsched.RefusedQueueFull.String(), sharedsched.RefusedDeadline.String(),
				sharedsched.RefusedForGoodput.String(), expired:
				if rate > small {
					break
				}
				fallthrough
			default:
				t.Fatalf("%.0f/s: at %v a request ended with %s", rate, c.at, c.end)
			}
		}
		// Under overload every answered request is answered just before its deadline, and p99 says nothing.
		if got, want := swapped.quantile(0.99), steady.quantile(0.99); rate < small && got > 2*want {
			t.Errorf("%.0f/s: p99 is %v while versions change, %v without", rate, got, want)
		}
		if grown > int64(swaps)*5<<10 {
			t.Errorf("%.0f/s: the heap grew by %d bytes over %d swaps", rate, grown, swaps)
		}
	}
}

// counted is a session that is counted until it is closed.
type counted struct {
	engine.Session

	open *atomic.Int64
}

func (c counted) Close() error {
	c.open.Add(-1)
	return c.Session.Close()
}

// swapping plays ten seconds of requests, or as long as the swaps take, and returns them with their ends, and the
// growth of the heap over the swaps.
func swapping(t *testing.T, rate float64, swaps int) (c calls, grown int64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		repo := t.TempDir()
		addModel(t, repo, "standard", curve(20*time.Millisecond, time.Millisecond, "max_batch_size: 8"))
		var open atomic.Int64
		opener := onSynth(synth.NewDevice())
		h := assemble(t, repo, "synth", func(ctx context.Context, v modelrepo.Version, f *modelfile.Files,
			m *modelrepo.Manifest, device string, try engine.Try,
		) (engine.Opened, error) {
			opened, err := opener(ctx, v, f, m, device, try)
			open.Add(1)
			opened.Session = counted{opened.Session, &open}
			return opened, err
		})
		repository, err := modelrepo.Open(repo)
		if err != nil {
			t.Fatal(err)
		}
		version := 1
		swap := func() {
			old := filepath.Join(repo, "standard", strconv.Itoa(version))
			version++
			if err := errors.Join(os.Mkdir(filepath.Join(repo, "standard", strconv.Itoa(version)), 0o755),
				os.Remove(old)); err != nil {
				t.Error(err)
			}
			if err := h.host.Reconcile(t.Context(), repository.Scan()); err != nil {
				t.Error(err)
			}
			if m := h.host.Snapshot().Model("standard"); len(m.Versions) != 1 || m.Newest() == nil ||
				m.Newest().Number != int64(version) {
				t.Errorf("after the swap to version %d the model has %+v", version, m.Versions)
			}
			if n := open.Load(); n != 1 {
				t.Errorf("after the swap to version %d there are %d sessions", version, n)
			}
		}
		inputs := []tensor.Tensor{{DType: tensor.Float32, Shape: tensor.Shape{1, 4}, Data: make([]byte, 16)}}
		play := func() {
			part := run(t.Context(), func(ctx context.Context, _ *load) error { return h.askNewest(ctx, inputs) },
				[]load{{
					model: "standard", course: []stretch{{rate, time.Second}}, limit: limit,
					seed: uint64(len(c)),
				}})[0]
			c = append(c, part...)
		}
		swapUnderLoad := func(times int) {
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer stop()
				for range times {
					swap()
				}
				if times == 0 {
					<-time.After(10 * time.Second)
				}
			}()
			for ctx.Err() == nil {
				play()
			}
			<-done
		}
		play()
		if swaps > 0 {
			swapUnderLoad(5) // pools reach their size, and the requests that wait their most
		}
		c = nil
		before := heap()
		swapUnderLoad(swaps)
		remembered := uint64(cap(c)) * uint64(unsafe.Sizeof(call{})) // the test's own
		grown = int64(heap() - before - remembered)
	})
	return c, grown
}

// askNewest asks the newest version, as the server does: once more if it went while the request was on its way.
func (h *house) askNewest(ctx context.Context, inputs []tensor.Tensor) (err error) {
	limit, _ := ctx.Deadline()
	for range 3 {
		err = h.host.Predict(ctx,
			&catalog.Call{Version: h.host.Snapshot().Model("standard").Newest(), Rows: 1, Inputs: inputs, Limit: limit})
		if !errors.Is(err, catalog.ErrNotReady) {
			break
		}
	}
	return err
}
