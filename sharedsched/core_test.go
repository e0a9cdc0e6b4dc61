package sharedsched

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/weftserve/weft/sharedsched/fairq"
)

func oneVersion(t *testing.T, s Settings) (*Core, VersionID) {
	t.Helper()
	c, err := NewCore(Config{Devices: []Device{{Name: "d", Lanes: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.AddFlow("m", "d", 1)
	if err != nil {
		t.Fatal(err)
	}
	v, err := c.AddVersion("m/1", f, s)
	if err != nil {
		t.Fatal(err)
	}
	return c, v
}

func TestQueuesAndCurvesAreBounded(t *testing.T) {
	c, v := oneVersion(t, Settings{Batched: true, MaxBatchSize: 4, MaxQueue: 10_000})
	var check checker
	// One key after the other: idle queues make room.
	for i := range 3 * maxQueues {
		key := fmt.Sprint("shape ", i)
		if _, _, err := c.Submit(Time(i), v, &Task{Rows: 1, Key: key, ShapeKey: key}, Never, nil); err != nil {
			t.Fatal(err)
		}
		var b Batch
		if ok, _ := c.Next(Time(i), 0, &b, nil); !ok {
			t.Fatal("nothing to start")
		}
		c.Settle(Time(i), 0, &b, Report{}, nil)
		if err := check.invariants(c); err != nil {
			t.Fatal(err)
		}
	}
	if q, k := len(c.version(v).queues), len(c.version(v).shapes); q > maxQueues || k > maxQueues {
		t.Errorf("%d queues and %d shapes are kept, at most %d of each are allowed", q, k, maxQueues)
	}
	if len(c.queues) > maxQueues || len(c.flows[0].locals) > maxQueues {
		t.Errorf("%d places for queues, %d in the flow, for at most %d live ones", len(c.queues),
			len(c.flows[0].locals), maxQueues)
	}
	// All at once: a key too many is refused.
	for i := range maxQueues {
		if _, _, err := c.Submit(0, v, &Task{Rows: 1, Key: fmt.Sprint("all ", i)}, Never, nil); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err := c.Submit(0, v, &Task{Rows: 1, Key: "one more"}, Never, nil)
	if r, ok := errors.AsType[*Refusal](err); !ok || r.Reason != RefusedQueueFull {
		t.Errorf("key %d too many: %v, want QUEUE_FULL", maxQueues+1, err)
	}
}

func TestFlowIDsAreReusedWithoutTheirPast(t *testing.T) {
	c, _ := oneVersion(t, Settings{Batched: true, MaxBatchSize: 4, MaxQueue: 10})
	for range 100 {
		f, err := c.AddFlow("next", "d", 3)
		if err != nil {
			t.Fatal(err)
		}
		if start := c.devices[0].fair[foreground].Start(fairq.Flow(f)); start != 0 {
			t.Fatalf("flow %d begins with a start tag of %v", f, time.Duration(start))
		}
		c.devices[0].fair[foreground].Charge(fairq.Flow(f), time.Hour)
		c.RemoveFlow(f)
	}
	if len(c.flows) != 2 {
		t.Errorf("%d places for flows, two were alive at once", len(c.flows))
	}
}

func TestWhatCannotBeConfigured(t *testing.T) {
	if _, err := NewCore(Config{}); err == nil {
		t.Error("no device: no error")
	}
	if _, err := NewCore(Config{Devices: []Device{{Name: "d"}}}); err == nil {
		t.Error("a device without lanes: no error")
	}
	c, v := oneVersion(t, Settings{MaxBatchSize: 1, MaxQueue: 1})
	if _, err := c.AddFlow("m", "elsewhere", 1); err == nil {
		t.Error("an unknown device: no error")
	}
	for _, weight := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := c.AddFlow("m", "d", weight); err == nil {
			t.Errorf("weight %v: no error", weight)
		}
	}
	if _, err := c.AddVersion("m/2", 7, Settings{MaxBatchSize: 1, MaxQueue: 1}); err == nil {
		t.Error("an unknown flow: no error")
	}
	if _, _, err := c.Submit(0, v, &Task{}, Never, nil); !errors.Is(err, ErrNoRows) {
		t.Errorf("a task without rows: %v", err)
	}
	for name, s := range map[string]Settings{
		"no batch size":        {MaxQueue: 1},
		"negative queue":       {MaxBatchSize: 1, MaxQueue: -1},
		"negative duration":    {MaxBatchSize: 1, MaxQueue: 1, BatchTimeout: -1},
		"sizes out of order":   {MaxBatchSize: 2, MaxQueue: 1, AllowedBatchSizes: []int{4, 2}},
		"sizes below one":      {MaxBatchSize: 2, MaxQueue: 1, AllowedBatchSizes: []int{0, 2}},
		"sizes below the most": {MaxBatchSize: 8, MaxQueue: 1, AllowedBatchSizes: []int{2, 4}},
	} {
		if err := c.Configure(0, v, s); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestFarTargetsAreLast: a target beyond all time is later than every other.
func TestFarTargetsAreLast(t *testing.T) {
	c, v := oneVersion(t, Settings{
		Batched: true, MaxBatchSize: 1, MaxQueue: 10, MaxLatency: math.MaxInt64,
		BatchTimeout: math.MaxInt64,
	})
	far, _, err := c.Submit(1, v, &Task{Rows: 1, Target: math.MaxInt64}, Never, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Submit(2, v, &Task{Rows: 1, Target: time.Second}, Never, nil); err != nil {
		t.Fatal(err)
	}
	var b Batch
	if ok, _ := c.Next(3, 0, &b, nil); !ok || b.Spans[0].task == far {
		t.Errorf("the task with a target of 292 years was started first")
	}
}

// TestSteadyStateDoesNotAllocate covers the life of a task in Core; BenchmarkHandOff shows the same of the shell.
func TestSteadyStateDoesNotAllocate(t *testing.T) {
	c, v := oneVersion(t, Settings{
		Batched: true, MaxBatchSize: 4, MaxQueue: 100, MaxLatency: time.Second,
		BatchTimeout: time.Millisecond,
	})
	task := Task{Rows: 1, Bytes: 10}
	var now Time
	var b Batch
	var acts []Action
	cycle := func() {
		for range 10 {
			now += 1000
			if _, _, err := c.Submit(now, v, &task, Never, nil); err != nil {
				t.Fatal(err)
			}
		}
		now += Time(2 * time.Millisecond)
		for {
			var ok bool
			if ok, acts = c.Next(now, 0, &b, acts[:0]); !ok {
				return
			}
			now += 1000
			_, acts = c.Settle(now, 0, &b, Report{}, acts[:0])
		}
	}
	for range 100 {
		cycle()
	}
	if n := testing.AllocsPerRun(100, cycle); n != 0 {
		t.Errorf("%v allocations for ten tasks, want none", n)
	}
}

// TestLongKeysAreNotKept: a queue whose key holds a large value goes as soon as it is idle.
func TestLongKeysAreNotKept(t *testing.T) {
	c, v := oneVersion(t, Settings{Batched: true, MaxBatchSize: 4, MaxQueue: 10})
	long := string(make([]byte, maxIdleKey+1))
	var check checker
	for range 3 {
		if _, _, err := c.Submit(0, v, &Task{Rows: 1, Key: long}, Never, nil); err != nil {
			t.Fatal(err)
		}
		var b Batch
		if ok, _ := c.Next(0, 0, &b, nil); !ok {
			t.Fatal("nothing to start")
		}
		c.Settle(1, 0, &b, Report{}, nil)
		if err := check.invariants(c); err != nil {
			t.Fatal(err)
		}
		if n := len(c.version(v).queues); n != 0 {
			t.Fatalf("%d idle queues are kept", n)
		}
	}
	if len(c.version(v).shapes) != 1 {
		t.Errorf("what was learnt of the shape is gone: %d shapes", len(c.version(v).shapes))
	}
}

// TestLateExecutions: an execution is late that ends after the limits of all its tasks.
func TestLateExecutions(t *testing.T) {
	c, v := oneVersion(t, Settings{Batched: true, MaxBatchSize: 4, MaxQueue: 10})
	ms := Time(time.Millisecond)
	run := func(from, to Time, limits ...Time) {
		for _, limit := range limits {
			if _, _, err := c.Submit(from, v, &Task{Rows: 1}, limit, nil); err != nil {
				t.Fatal(err)
			}
		}
		var b Batch
		if ok, _ := c.Next(from, 0, &b, nil); !ok {
			t.Fatal("nothing was started")
		}
		c.Settle(to, 0, &b, Report{}, nil)
	}
	late := func() uint64 { return c.State(0).Accounts[0].Late }
	run(0, 20*ms, 15*ms, 30*ms)
	run(20*ms, 40*ms, 40*ms)
	run(40*ms, 60*ms, Never, 50*ms)
	if n := late(); n != 0 {
		t.Errorf("%d executions are late that had somebody waiting", n)
	}
	if run(60*ms, 90*ms, 75*ms, 80*ms); late() != 1 {
		t.Errorf("%d executions are late, want 1", late())
	}
}

// TestDecisionsForgetTheirPredecessors: the place of a decision in the log is that of an older one, whose numbers are
// not its own.
func TestDecisionsForgetTheirPredecessors(t *testing.T) {
	var l decisionLog
	for range logSize {
		*l.next() = Decision{Kind: Ran, Rows: 5, Left: 3, Bound: BoundCost}
	}
	if got := *l.next(); got != (Decision{}) {
		t.Errorf("a new decision begins as %+v, want it empty", got)
	}
}
