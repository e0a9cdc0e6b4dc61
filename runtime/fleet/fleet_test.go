package fleet_test

import (
	"context"
	"errors"
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
