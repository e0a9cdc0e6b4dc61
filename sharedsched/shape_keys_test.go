package sharedsched

import (
	"strconv"
	"testing"
	"time"
)

// TestShapeKeysDoNotMoveShares splits the work of one of three saturated flows over 200 shape keys, in batches of a few
// rows: the others' part of the device changes by less than 5 %.
func TestShapeKeysDoNotMoveShares(t *testing.T) {
	want := othersShare(t, 1, 1)
	if got := othersShare(t, 1, 200); got < 0.95*want || got > 1.05*want {
		t.Errorf("the others get %.4f of the device next to 200 keys, %.4f next to one", got, want)
	}
	// The check must be able to fail: were fairness owed to keys, each would have a share of its own.
	if got := othersShare(t, 200, 1); got > 0.95*want {
		t.Errorf("next to 200 flows of one key the others get %.4f of the device as well: this test proves nothing", got)
	}
}

// othersShare returns which part of a saturated device two flows get next to a model that is split over some flows of
// some keys.
func othersShare(t *testing.T, flows, keys int) float64 {
	t.Helper()
	c, err := NewCore(Config{Devices: []Device{{Name: "d", Lanes: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	var versions []VersionID
	names := make([][]string, 2+flows)
	for i := range 2 + flows {
		f, err := c.AddFlow("f", "d", 1)
		if err != nil {
			t.Fatal(err)
		}
		v, err := c.AddVersion("v", f, Settings{Batched: true, MaxBatchSize: 8, MaxQueue: 1000})
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, v)
		names[i] = []string{""}
		for k := 1; i > 1 && k < keys; k++ {
			names[i] = append(names[i], strconv.Itoa(k))
		}
		for _, key := range names[i] {
			curve := c.shapeOf(v, key)
			for range 3 {
				curve.Settle(curve.Begin(1), 2*time.Millisecond)
				curve.Settle(curve.Begin(8), 5*time.Millisecond)
			}
		}
	}
	now, served, next := Time(0), [2]time.Duration{}, 0
	for now < Time(10*time.Second) {
		for i, v := range versions {
			has := c.version(v).flow.tenancy(c.version(v))
			for has.queued[foreground] < 400/flows { // some of each key wait, mostly less than a batch
				key := names[i][next%len(names[i])]
				next++
				if _, _, err := c.Submit(now, v, &Task{Rows: 1, Key: key, ShapeKey: key}, Never, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		var b Batch
		if ok, _ := c.Next(now, 0, &b, nil); !ok {
			t.Fatal("work waits and none was started")
		}
		took := 1500*time.Microsecond + time.Duration(b.Rows)*500*time.Microsecond
		now = now.Add(took)
		c.Settle(now, 0, &b, Report{}, nil)
		served[min(1, int(b.Version)/2)] += took
	}
	return float64(served[0]) / float64(served[0]+served[1])
}

// TestShapesOfAVersionAreNotTheDevice: a change that all shapes of one version show is not attributed to the device
// until another version shows it, too.
func TestShapesOfAVersionAreNotTheDevice(t *testing.T) {
	for _, versions := range []int{1, 2} {
		c, err := NewCore(Config{Devices: []Device{{Name: "d", Lanes: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		var shapes []*shape
		for i := range 2 {
			v := VersionID(0)
			if i < versions {
				f, err := c.AddFlow("f", "d", 1)
				if err != nil {
					t.Fatal(err)
				}
				if v, err = c.AddVersion("v", f, Settings{Batched: true, MaxBatchSize: 8, MaxQueue: 10}); err != nil {
					t.Fatal(err)
				}
			}
			shapes = append(shapes, c.shapeOf(v, strconv.Itoa(i)))
		}
		for i := range 40 {
			took := 10 * time.Millisecond
			if i >= 20 {
				took = 12 * time.Millisecond
			}
			s := shapes[i%2]
			s.Settle(s.Begin(1), took)
		}
		if _, _, residual, _ := c.devices[0].state.Factors(); (residual > 1) != (versions > 1) {
			t.Errorf("a residual of %v after what two shapes of %d versions have shown", residual, versions)
		}
	}
}
