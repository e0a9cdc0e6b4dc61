package sharedsched

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// drive has the lane take and end batches until there is none.
func drive(t *testing.T, c *Core, now Time) {
	t.Helper()
	for {
		var b Batch
		if ok, _ := c.Next(now, 0, &b, nil); !ok {
			return
		}
		c.Settle(now, 0, &b, Report{}, nil)
	}
}

// TestAFloodOfKeysIsOneIdentitys: the keys of one identity, however many, leave another its queues and its known
// shapes.
func TestAFloodOfKeysIsOneIdentitys(t *testing.T) {
	c, v := oneVersion(t, Settings{Batched: true, MaxBatchSize: 4, MaxQueue: 10_000})
	var check checker
	ask := func(now Time, who, key string) error {
		_, _, err := c.Submit(now, v, &Task{Rows: 1, Key: key, ShapeKey: key, Identity: who}, Never, nil)
		return errors.Join(err, check.invariants(c))
	}
	for i := range 3 {
		if err := ask(Time(i), "modest", fmt.Sprint("modest ", i)); err != nil {
			t.Fatal(err)
		}
		drive(t, c, Time(i))
	}
	for i := range 3 * maxQueues { // one after the other
		if err := ask(Time(10+i), "flooder", fmt.Sprint("flood ", i)); err != nil {
			t.Fatal(err)
		}
		drive(t, c, Time(10+i))
	}
	cv := c.version(v)
	for i := range 3 {
		key := fmt.Sprint("modest ", i)
		if cv.shapes[key] == nil || cv.queues[address{c.devices[0].identities["modest"], key}] == nil {
			t.Errorf("the shape or the queue of %q is gone", key)
		}
	}
	if n := len(cv.shapes); n > maxQueues+3 {
		t.Errorf("%d shapes are kept of one identity, and 3 of another", n-3)
	}
	for i := range maxQueues { // all at once
		if err := ask(2000, "flooder", fmt.Sprint("all ", i)); err != nil {
			t.Fatal(err)
		}
	}
	if r, is := errors.AsType[*Refusal](ask(2000, "flooder", "one more")); !is || r.Keys != maxQueues ||
		r.Identity != "flooder" {
		t.Errorf("a key too many: %v", r)
	}
	if err := ask(2000, "modest", "a new one"); err != nil {
		t.Errorf("beside a flood of keys: %v", err)
	}
}

// TestQueuesOfAllAreBounded: many identities with many keys each do not fill the memory while they are idle.
func TestQueuesOfAllAreBounded(t *testing.T) {
	c, v := oneVersion(t, Settings{Batched: true, MaxBatchSize: 4, MaxQueue: 10_000})
	var check checker
	if _, _, err := c.Submit(0, v, &Task{Rows: 1, Identity: "modest"}, Never, nil); err != nil {
		t.Fatal(err)
	}
	drive(t, c, 0)
	for i := range 3 * maxOfAll {
		now, who, key := Time(i), fmt.Sprint("identity ", i%40), fmt.Sprint("key ", i/40)
		if _, _, err := c.Submit(now, v, &Task{Rows: 1, Key: key, ShapeKey: who + key, Identity: who}, Never,
			nil); err != nil {
			t.Fatal(err)
		}
		drive(t, c, now)
		if i%100 == 0 {
			if err := check.invariants(c); err != nil {
				t.Fatal(err)
			}
		}
	}
	if modest := c.devices[0].identities["modest"]; c.version(v).queues[address{modest, ""}] == nil {
		t.Error("the queue of one who has no other is gone, because others have many")
	}
	if q, s := len(c.version(v).queues), len(c.version(v).shapes); q > maxOfAll || s > maxOfAll {
		t.Errorf("%d queues and %d shapes are kept, at most %d of each are allowed", q, s, maxOfAll)
	}
}

// TestIdentitiesAreBounded: the one that rested for longest makes room for a new one, and who has work keeps his flow.
// Where all have work, the version is charged for another.
func TestIdentitiesAreBounded(t *testing.T) {
	c, v := oneVersion(t, Settings{Batched: true, MaxBatchSize: 4, MaxQueue: 10})
	var check checker
	name := func(i int) string { return fmt.Sprint("identity ", i) }
	ask := func(now Time, who string) {
		t.Helper()
		if _, _, err := c.Submit(now, v, &Task{Rows: 1, Identity: who, Weight: 2}, Never, nil); err != nil {
			t.Fatal(err)
		}
		if err := check.invariants(c); err != nil {
			t.Fatal(err)
		}
	}
	now := Time(0)
	step := func() { now = now.Add(10 * time.Millisecond) }
	for i := range maxIdentities {
		ask(now, name(i))
		drive(t, c, now)
		step()
	}
	ask(now, name(0)) // it has work, and was asked of last
	ask(now, "new")
	known := c.devices[0].identities
	if known[name(1)] != nil || known[name(0)] == nil || known["new"] == nil || len(known) != maxIdentities {
		t.Errorf("%d identities are known, the one that rested for longest: %v", len(known), known[name(1)] != nil)
	}
	if len(c.flows) > 1+maxIdentities {
		t.Errorf("%d places for flows, at most %d were alive at once", len(c.flows), 1+maxIdentities)
	}
	for i := range maxIdentities {
		ask(now, name(i+1)) // the first of them comes again, for another that rests
	}
	before := c.version(v).flow.tenancy(c.version(v)).queued
	ask(now, "one too many")
	if after := c.version(v).flow.tenancy(c.version(v)).queued; after[foreground] != before[foreground]+1 ||
		known["one too many"] != nil {
		t.Errorf("one too many is charged to the version: %v after %v", after, before)
	}
	if n := c.Room(v, "one too many"); n != 10-1-before[foreground] {
		t.Errorf("there is room for %d more, of 10", n)
	}
}

// TestWeightsOfIdentitiesAreChecked: as those of other flows.
func TestWeightsOfIdentitiesAreChecked(t *testing.T) {
	c, v := oneVersion(t, Settings{Batched: true, MaxBatchSize: 4, MaxQueue: 10})
	for _, weight := range []float64{-1, 1e-9, 1e9} {
		if _, _, err := c.Submit(0, v, &Task{Rows: 1, Identity: "p", Weight: weight}, Never, nil); err == nil {
			t.Errorf("weight %v: no error", weight)
		}
	}
	if len(c.devices[0].identities) != 0 {
		t.Error("a refused weight made a flow")
	}
}
