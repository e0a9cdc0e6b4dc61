package bench

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/synth"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// TestHotSwaps replaces a version fifty times, each with the next number, while twice as many requests come as the device can
// serve: none fails but for want of time or room, those that are answered wait no longer than without, and memory is as before.
func TestHotSwaps(t *testing.T) {
	const swaps = 50
	steady, _, _ := swapping(t, 0)
	swapped, before, after := swapping(t, swaps)
	t.Logf("%d requests with %d swaps: %v", len(swapped), swaps, swapped)
	t.Logf("%d requests with none: %v", len(steady), steady)
	t.Logf("heap %d KiB before the swaps, %d KiB after", before>>10, after>>10)
	for _, c := range swapped {
		switch c.end {
		case answered, sharedsched.RefusedQueueFull.String(), sharedsched.RefusedDeadline.String(), sharedsched.RefusedForGoodput.String(), "DeadlineExceeded":
		default:
			t.Fatalf("at %v a request ended with %s", c.at, c.end)
		}
	}
	if got, want := swapped.quantile(0.99), steady.quantile(0.99); got > 2*want {
		t.Errorf("p99 is %v while versions change, %v without", got, want)
	}
	if float64(after) > 1.1*float64(before) {
		t.Errorf("the heap grew from %d to %d bytes over %d swaps", before, after, swaps)
	}
}

// swapping plays half a minute of requests, or as long as the swaps take, and returns what became of them and the heap before and
// after the swaps.
func swapping(t *testing.T, swaps int) (c calls, before, after uint64) {
	t.Helper()
	const small = 8 / 0.028 // requests a second that full batches answer
	synctest.Test(t, func(t *testing.T) {
		repo := t.TempDir()
		addModel(t, repo, "standard", curve(20*time.Millisecond, time.Millisecond, "max_batch_size: 8"))
		device := synth.NewDevice()
		h := assemble(t, repo, "synth", func(_ context.Context, _ modelrepo.Version, m *modelrepo.Manifest) (host.Opened, error) {
			session, err := synth.Open(synth.Options{Base: time.Duration(m.Synth.Base), PerRow: time.Duration(m.Synth.PerRow), Device: device})
			return host.Opened{Session: session, Device: "synth", Provider: "synth"}, err
		})
		repository, err := modelrepo.Open(repo)
		if err != nil {
			t.Fatal(err)
		}
		version := 1
		swap := func() {
			old := filepath.Join(repo, "standard", strconv.Itoa(version))
			version++
			if err := errors.Join(os.Mkdir(filepath.Join(repo, "standard", strconv.Itoa(version)), 0o755), os.Remove(old)); err != nil {
				t.Error(err)
			}
			if err := h.host.Reconcile(t.Context(), repository.Scan()); err != nil {
				t.Error(err)
			}
			if m := h.host.Snapshot().Model("standard"); len(m.Versions) != 1 || m.Newest() == nil || m.Newest().Number != int64(version) {
				t.Errorf("after the swap to version %d the model has %+v", version, m.Versions)
			}
		}
		if swaps > 0 {
			swap() // pools reach their size
		}
		before = heap()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer stop()
			for range swaps {
				swap()
			}
			if swaps == 0 {
				<-time.After(30 * time.Second)
			}
		}()
		inputs := []tensor.Tensor{{DType: tensor.Float32, Shape: tensor.Shape{1, 4}, Data: make([]byte, 16)}}
		for end := false; !end; {
			part := run(t.Context(), func(ctx context.Context, _ *load) error { return h.askNewest(ctx, inputs) },
				[]load{{model: "standard", course: []stretch{{2 * small, time.Second}}, limit: limit, seed: uint64(len(c))}})[0]
			c = append(c, part...)
			end = ctx.Err() != nil
		}
		<-done
		after = heap() - uint64(len(c))*48 // what is remembered of the calls is the test's own
	})
	return c, before, after
}

// askNewest asks the newest version, as the server does: once more if it went while the request was on its way.
func (h *house) askNewest(ctx context.Context, inputs []tensor.Tensor) (err error) {
	limit, _ := ctx.Deadline()
	for range 3 {
		err = h.host.Predict(ctx, &catalog.Call{Version: h.host.Snapshot().Model("standard").Newest(), Rows: 1, Inputs: inputs, Limit: limit})
		if !errors.Is(err, catalog.ErrNotReady) {
			break
		}
	}
	return err
}
