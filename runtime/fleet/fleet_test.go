package fleet_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/fleet"
	"github.com/weftserve/weft/runtime/fleet/placement"
)

// TestIncarnations: a device that comes back is another one, which knows nothing of the fate of the first.
func TestIncarnations(t *testing.T) {
	f := fleet.New(map[string]int{"gpu": 2}, nil)
	first := f.Get("gpu")
	if again := f.Restore("gpu"); again != nil || f.Restore("other") != nil {
		t.Error("a device that works is restored")
	}
	if !first.Lose(errors.New("fell off the bus")) || first.Lose(errors.New("again")) {
		t.Error("a device is not lost once")
	}
	f.Count(first, 3)
	second := f.Restore("gpu")
	if second == first || second != f.Get("gpu") || second.Lost() != nil || second.Lanes != 2 || len(f.Lost()) > 0 {
		t.Errorf("restored as %+v", second)
	}
	if want := (placement.DeviceID{Name: "gpu", Incarnation: 1}); second.ID() != want {
		t.Errorf("it is %v, want %v", second.ID(), want)
	}
	if open, _ := f.States([]placement.Site{{Device: "gpu"}}, fleet.Room{}, nil); len(open) != 1 ||
		open[0].Versions != 0 {
		t.Errorf("it begins with %+v", open)
	}
}

// TestWhatBeganOnALostDevice has 5 s left, and is heard of if it ends after all.
func TestWhatBeganOnALostDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := fleet.New(nil, nil).Get("gpu")
		var late error
		begin := time.Now()
		go func() {
			time.Sleep(time.Second)
			d.Lose(errors.New("fell off the bus"))
		}()
		err := d.During(t.Context(), func(context.Context) error {
			time.Sleep(time.Hour)
			return errors.New("in the end")
		}, func(err error) { late = err })
		if took := time.Since(begin); took != 6*time.Second || !errors.Is(err, fleet.ErrLeftBehind) {
			t.Errorf("after %v: %v", took, err)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if late == nil || late.Error() != "in the end" {
			t.Errorf("heard late: %v", late)
		}
		if err := d.During(t.Context(), func(context.Context) error { return nil }, nil); err != nil {
			t.Errorf("what takes no time: %v", err)
		}
	})
}

// TestBudget counts the held bytes, each holding once, and names their holders.
func TestBudget(t *testing.T) {
	b := fleet.NewBudget(10)
	small, err := b.Take("m", 1, 3)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Take("m", 2, 6); err != nil {
		t.Fatal(err)
	}
	_, err = b.Take("n", 1, 2)
	short, is := errors.AsType[*catalog.MemoryError](err)
	if !is || short.InUse != 9 || short.Budget != 10 || short.Need != 2 || len(short.Residents) != 2 ||
		short.Residents[0].Version != 2 {
		t.Errorf("refused with %+v", err)
	}
	if b.Fits("n", 1, 1) != nil || b.Fits("n", 1, 2) == nil || b.Free() != 1 {
		t.Errorf("%d bytes are free", b.Free())
	}
	b.Give(small)
	b.Give(small)
	if inUse, limit := b.InUse(); inUse != 6 || limit != 10 {
		t.Errorf("%d of %d are held", inUse, limit)
	}
	b.SetLimit(0)
	if b.Fits("n", 1, 1<<60) != nil {
		t.Error("a budget without a bound has one")
	}
}

// names words the devices that are full.
func names(full []catalog.FullDevice) string {
	var all []string
	for _, d := range full {
		all = append(all, d.Name)
	}
	return strings.Join(all, " ")
}

// TestReserve: a version goes where its memory fits next to what is being loaded there, to a worse rank only if nothing
// of a better one is left, and not to where something is against it.
func TestReserve(t *testing.T) {
	free := map[string]int64{"a": 10, "b": 4, "cpu": 100}
	f := fleet.New(nil, func(device string) (int64, bool) {
		bytes, known := free[device]
		return bytes, known
	})
	sites := []placement.Site{{Device: "a"}, {Device: "b"}, {Device: "cpu", Rank: 1}}
	for i, c := range []struct {
		room     fleet.Room
		on, full string
	}{
		{fleet.Room{Need: 5}, "a", "b"},
		{fleet.Room{Need: 4}, "b", ""}, // a has one version
		{fleet.Room{Need: 5}, "a", "b"},
		{fleet.Room{Need: 1}, "cpu", "a b"},
		{fleet.Room{Need: 200}, "", "a b cpu"},
		{fleet.Room{Against: map[string]error{"a": errors.New("tried"), "b": fleet.ErrResident}}, "cpu", "a b"},
	} {
		d, full := f.Reserve(sites, c.room)
		if (d == nil) != (c.on == "") || d != nil && d.Name != c.on || names(full) != c.full {
			t.Errorf("%d: on %v, full %q; want %q, %q", i, d, names(full), c.on, c.full)
		}
	}
	_, full := f.States(sites, fleet.Room{Need: 5}, map[string]int64{"a": 12, "b": 3})
	if want := []int64{2, 0}; len(full) != 2 || full[0].Free != want[0] || full[1].Free != want[1] {
		t.Errorf("full %+v, want %v free", full, want)
	}
	f.Settle(f.Get("a"), 5)
	f.Settle(f.Get("a"), 5)
	f.Settle(f.Get("b"), 4)
	open, _ := f.States(sites, fleet.Room{Need: 4}, free)
	if len(open) != 3 || open[0].Versions != 0 || open[2].Versions != 2 || open[2].Rank != 1 {
		t.Errorf("with all settled but two on cpu: %+v", open)
	}
	delete(free, "b")
	if d, _ := f.Reserve(sites, fleet.Room{Need: 1 << 40}); d.Name != "b" {
		t.Errorf("where nothing is known there is room, but it goes to %s", d.Name)
	}
}

// TestLostAndUnknownDevices are full, and say why; an unknown device is full only if it is among Wary.
func TestLostAndUnknownDevices(t *testing.T) {
	f := fleet.New(nil, nil)
	f.Get("a").Lose(errors.New("fell off the bus"))
	sites := []placement.Site{{Device: "a"}, {Device: "b"}, {Device: "c"}}
	if free := f.FreeMemory(sites); len(free) != 0 {
		t.Errorf("free %v, though nobody can tell", free)
	}
	open, full := f.States(sites, fleet.Room{Wary: []string{"b"}, Against: map[string]error{"c": fleet.ErrResident}}, nil)
	if len(open) != 0 || names(full) != "a b c" || !full[0].Lost ||
		full[0].Cause.Error() != "it is lost: fell off the bus" ||
		!strings.HasPrefix(full[1].Cause.Error(), "it had no room when") || full[1].Lost || !full[2].Resident {
		t.Errorf("open %+v, full %+v", open, full)
	}
	_, full = f.States(sites[:1], fleet.Room{Against: map[string]error{"a": errors.New("tried")}}, nil)
	if len(full) != 1 || !full[0].Lost || full[0].Resident || full[0].Cause.Error() != "tried" {
		t.Errorf("lost, and tried before: %+v", full)
	}
	if lost := f.Lost(); len(lost) != 1 || lost[0].Name != "a" || lost[0].Cause != "fell off the bus" {
		t.Errorf("lost %+v", lost)
	}
	if f.Restore("b") != nil {
		t.Error("a device that works is restored")
	}
	b := f.Get("b")
	if f.Restore("a") == nil || f.Get("b") != b {
		t.Error("another device was restored")
	}
}

// TestADriverIsAskedOnce for each device, and for all at once.
func TestADriverIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		f := fleet.New(nil, func(device string) (int64, bool) {
			asked.Add(1)
			time.Sleep(time.Second)
			return 7, device != "cpu"
		})
		began := time.Now()
		free := f.FreeMemory([]placement.Site{{Device: "a"}, {Device: "cpu"}, {Device: "a"}})
		if len(free) != 1 || free["a"] != 7 || asked.Load() != 2 || time.Since(began) != time.Second {
			t.Errorf("free %v, asked %d times, after %v", free, asked.Load(), time.Since(began))
		}
	})
}

// TestLoad is the part of its time that a device was asked for lately, however long ago the look before was.
func TestLoad(t *testing.T) {
	f := fleet.New(nil, nil)
	a, b := f.Get("a"), f.Get("b")
	a.Asked.Store(int64(time.Hour))
	f.Forget()
	for _, passed := range []time.Duration{time.Second, 3 * time.Second, 4 * time.Second} {
		a.Asked.Store(int64(passed) / 2)
		b.Asked.Store(2 * int64(passed))
		f.Tick(passed)
	}
	// What is left of nothing: 7/8, 5/8 and 4/8 of it.
	left := 1 - 7./8*5/8*4/8
	if la, lb := f.Load(a), f.Load(b); la != left/2 || lb != left*2 {
		t.Errorf("loads %v and %v, want %v and %v", la, lb, left/2, left*2)
	}
	if most, is := f.Spare([]string{"a", "b"}); !is || most != 1-left/2 {
		t.Errorf("spare %v, want that of a", most)
	}
	if most, is := f.Spare([]string{"b"}); !is || most != 0 {
		t.Errorf("spare %v, want none: b is asked for more than it has", most)
	}
	a.Lose(errors.New("fell off the bus"))
	b.Lose(errors.New("fell off the bus"))
	if _, is := f.Spare([]string{"a", "b"}); is {
		t.Error("a lost device is to spare")
	}
	f.Tick(time.Minute)
	if load := f.Load(b); load != 0 {
		t.Errorf("load %v after a minute in which nothing was asked", load)
	}
}

// TestAwaitKnown returns at once while a device works, and on a lost one when its loss is known, or the context ends.
func TestAwaitKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fleet.New(nil, nil)
		a, b := f.Get("a"), f.Get("b")
		began := time.Now()
		a.AwaitKnown(t.Context())
		a.Lose(errors.New("fell off the bus"))
		b.Lose(errors.New("fell off the bus"))
		time.AfterFunc(time.Second, a.Known)
		a.AwaitKnown(t.Context())
		if took := time.Since(began); took != time.Second {
			t.Errorf("known after %v, want 1s", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		b.AwaitKnown(ctx)
	})
}

// TestHangs: a device is stuck when each of its lanes is held.
func TestHangs(t *testing.T) {
	d := fleet.New(map[string]int{"a": 2}, nil).Get("a")
	for hanging, want := range []bool{false, false, true, true} {
		if d.Stuck() != want {
			t.Errorf("%d of two lanes hang: stuck %v", hanging, d.Stuck())
		}
		d.Hanging.Add(1)
	}
}

// TestEstimate: one and a half times the files below a directory, following links, each file once.
func TestEstimate(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "model.onnx"), make([]byte, 1000), 0o600),
		os.Mkdir(filepath.Join(dir, "below"), 0o700),
		os.WriteFile(filepath.Join(dir, "below", "weights"), make([]byte, 3000), 0o600),
		os.Symlink(dir, filepath.Join(dir, "below", "again")),
		os.Symlink(filepath.Join(dir, "model.onnx"), filepath.Join(other, "model.onnx")),
		os.Symlink("/dev/null", filepath.Join(other, "null")),
		os.Symlink("nowhere", filepath.Join(other, "broken")),
	); err != nil {
		t.Fatal(err)
	}
	got := []int64{fleet.Estimate(dir), fleet.Estimate(other), fleet.Estimate(filepath.Join(dir, "nothing"))}
	if want := []int64{6000, 1500, 0}; !slices.Equal(got, want) {
		t.Errorf("estimates %v, want %v", got, want)
	}
}
