package sim

import (
	"math/rand/v2"
	"testing"
	"time"
)

// sized returns m with another MaxBatch.
func sized(m Model, maxBatch int) Model {
	m.MaxBatch = maxBatch
	return m
}

// rated returns m with another rate.
func rated(m Model, rate float64) Model {
	m.Rate = rate
	return m
}

// keyed returns m with shape keys.
func keyed(m Model, keys int) Model {
	m.Keys = keys
	return m
}

// flat returns two models whose batch of b takes 9+b ms, due in 100 ms.
func flat(maxBatch int) []Model {
	return []Model{sized(linear("a", 9, 1, 100, 1), maxBatch), sized(linear("b", 9, 1, 100, 1), maxBatch)}
}

// TestBaselineDecisions plays small traces whose batches can all be worked out by hand. A profile counts 5 % more
// where a policy predicts with it: 10.5 ms for one row of flat, 11.55 ms for two.
func TestBaselineDecisions(t *testing.T) {
	tf := func(timeout int, expiry bool) func(*Env) Policy {
		return func(e *Env) Policy { return newTFServing(e, time.Duration(timeout)*time.Millisecond, expiry) }
	}
	triton := func(delay int, reject bool) func(*Env) Policy {
		return func(e *Env) Policy { return newTriton(e, time.Duration(delay)*time.Millisecond, reject) }
	}
	clockwork := func(e *Env) Policy { return newClockwork(e, 5*time.Millisecond, false) }
	nexus := func(saturated bool) func(*Env) Policy { return func(e *Env) Policy { return newNexus(e, saturated) } }
	symphony := func(e *Env) Policy { return newSymphony(e) }
	fair := func(e *Env) Policy { return newSFQ(e) }

	// b is slower: 20 ms for one row.
	uneven := []Model{linear("a", 9, 1, 100, 1), linear("b", 15, 5, 100, 1)}
	weighted := []Model{sized(linear("a", 9, 1, 1000, 1), 1), sized(linear("b", 9, 1, 1000, 1), 1)}
	weighted[1].Weight = 2

	for _, c := range []struct {
		name   string
		models []Model
		policy func(*Env) Policy
		lanes  int
		script string
		want   string
	}{
		{
			"tfserving takes turns and fills batches", flat(2), tf(0, false), 1, "a0 a1 a1 a1 b2",
			"0 a[0], 10 b[4], 20 a[1 2], 31 a[3]",
		},
		{
			"tfserving waits for the timeout of the first task", flat(4), tf(5, false), 1, "a0 a3 b30",
			"5 a[0 1], 35 b[2]",
		},
		{"tfserving does not wait when full", flat(2), tf(50, false), 1, "a0 b1 b1", "1 b[1 2], 50 a[0]"},
		{"tfserving closes what overflows", flat(3), tf(50, false), 1, "a0x2 a1x2", "1 a[0], 51 a[1]"},
		{
			"tfserving refuses the eleventh batch", flat(1), tf(0, false), 1, "a0 a1 a1 a1 a1 a1 a1 a1 a1 a1 a1 a2",
			"0 a[0], 10 a[1], 20 a[2], 30 a[3], 40 a[4], 50 a[5], 60 a[6], 70 a[7], 80 a[8], 90 a[9], 100 a[10], " +
				"110 10 late, 2 11 refused",
		},
		{
			"tfserving without expiry knows no deadlines", flat(2), tf(0, false), 1, "a0 a1/5 a1/6 a1",
			"0 a[0], 10 a[1 2], 21 a[3], 21 1 late, 21 2 late",
		},
		{
			// Late tasks run with the one that is alive, and the batch stays as it was formed.
			"tfserving runs a batch with one task alive", flat(3), tf(0, true), 1, "a0 a1/5 a1/6 a1",
			"0 a[0], 10 a[1 2 3], 22 1 late, 22 2 late",
		},
		{
			"tfserving skips a batch of which all tasks are late", flat(2), tf(0, true), 1, "a0 a1/5 a1/6 a1 b2",
			"0 a[0], 10 b[4], 20 a[3], 20 1 dropped, 20 2 dropped",
		},
		{
			// Both late batches of a take a turn each, and b has its own in between.
			"tfserving's skipped batch was its queue's turn", append(flat(1), flat(1)...), tf(0, true), 1,
			"b0 a1/5 a1/5 a1 c2 b2",
			"0 b[0], 10 c[4], 20 b[5], 30 a[3], 20 1 dropped, 30 2 dropped",
		},
		{
			// The late task holds its place in the open batch, which is why there is no room for the last one.
			"tfserving's late tasks stay in the queue", flat(2), tf(50, true), 1, "b0 b0 a1/5 a2 a3",
			"0 b[0 1], 11 a[2 3], 53 a[4], 22 2 late",
		},
		{
			"triton's batchers share the device", flat(2), triton(0, false), 2, "a0 b0 a5 a5 a5 b5",
			"0 a[0], 0 b[1], 20 a[2 3], 20 b[5], 41 a[4]",
		},
		{"triton waits for its delay or a full batch", flat(2), triton(8, false), 2, "a0 b1 b3", "3 b[1 2], 8 a[0]"},
		{
			"triton as shipped has no timeout", flat(2), triton(0, false), 2, "a0 a1/5 a1/15",
			"0 a[0], 10 a[1 2], 21 1 late, 21 2 late",
		},
		{
			"triton with REJECT gives up what is past its deadline", flat(2), triton(0, true), 2, "a0 a1/5 a1/15",
			"0 a[0], 10 a[2], 10 1 dropped, 20 2 late",
		},
		{
			"triton keeps shapes apart and takes the older",
			[]Model{keyed(flat(4)[0], 2)},
			triton(0, false), 1, "a0 a1#1 a2 a11#1",
			"0 a[0], 10 a[1], 20 a[2], 30 a[3]",
		},
		{
			"clockwork's sizes are powers of two", flat(8), clockwork, 1, "a0 a1 a1 a1 a1 a1 a1",
			"0 a[0], 10 a[1 2 3 4], 23 a[5 6]",
		},
		{"clockwork takes what has to start soonest", uneven, clockwork, 1, "a0 a1 b2", "0 a[0], 10 b[2], 30 a[1]"},
		{
			"clockwork keeps a tenth of a small objective",
			[]Model{linear("a", 9, 1, 20, 1)},
			clockwork, 1, "a0 a3/18 a3",
			"0 a[0], 10 a[2], 10 1 dropped",
		},
		{
			"clockwork keeps 5 ms of a large one", flat(8), clockwork, 1, "a0 a2/22 a2/23",
			"0 a[0], 10 a[2], 10 1 dropped",
		},
		{
			"clockwork gives up the heads that the larger size skips", flat(2), clockwork, 1, "a0 a1/24 a1 a1",
			"0 a[0], 10 a[2 3], 10 1 dropped",
		},
		{
			"clockwork pads a request of several rows", flat(8), clockwork, 1, "a0x3 a1x2 a1x3",
			"0 a[0] as 4, 13 a[1], 24 a[2] as 4",
		},

		{"nexus goes round", flat(2), nexus(true), 1, "a0 a1 a1 a1 b2", "0 a[0], 10 b[4], 20 a[1 2], 31 a[3]"},
		{
			"nexus plans 2 l(b) within the objective",
			[]Model{linear("a", 9, 1, 25, 1000)},
			nexus(true), 1,
			"a0 a1/90 a1/90 a1/90", "0 a[0], 10 a[1 2], 21 a[3]",
		},
		{
			"nexus drops a head that forces a small batch", flat(4), nexus(true), 1, "a0 a1/20 a1 a1",
			"0 a[0], 10 a[2 3], 10 1 dropped",
		},
		{
			// It plans batches of 4 for a, which gather in 80 ms, and of 7 for b.
			"nexus goes to the session that is due",
			[]Model{rated(flat(8)[0], 50), rated(flat(8)[1], 90)},
			nexus(false), 1,
			"b0 a1 b2 b2 b2 b2 b2 b2 b2 b2", "0 b[0], 10 b[2 3 4 5 6 7 8], 26 a[1], 36 b[9]",
		},
		{
			// The 80 ms have become a little longer when they are over, since the rate has gone down.
			"nexus's session is due after its duty cycle",
			[]Model{rated(flat(8)[0], 50), rated(sized(flat(8)[1], 1), 50)},
			nexus(false), 1,
			"b0/900 a0/900 b1/900 b1/900 b1/900 b1/900 b1/900 b1/900 b1/900 b1/900 b1/900",
			"0 b[0], 10 b[2], 20 b[3], 30 b[4], 40 b[5], 50 b[6], 60 b[7], 70 b[8], 80 b[9], 90 a[1], 100 b[10]",
		},

		{
			"symphony adds what comes for free to its target of 1", flat(8), symphony, 1, "a0 a1/21 a1/60 a1/60 b1/40",
			"0 a[0], 10 a[1 2], 21 b[4], 31 a[3]",
		},
		{
			// With all 3 the first would be late; without it, the other 2 can have it along.
			"symphony takes dropped ones back",
			[]Model{rated(flat(8)[0], 1000)},
			symphony, 1, "a0 a1/21 a1 a1",
			"0 a[0], 10 a[1 2], 21 a[3]",
		},
		{
			"symphony drops the head for its target",
			[]Model{rated(flat(8)[0], 1000)},
			symphony, 1, "a0 a1/21 a1 a1 a1",
			"0 a[0], 10 a[2 3 4], 10 1 dropped",
		},

		{"edf takes the earliest head", uneven, newEDF, 1, "a0 b1 a2/98.5", "0 a[0], 10 a[2], 20 b[1]"},
		{
			"edf keeps the deadline of the head, however small the batch", flat(8), newEDF, 1,
			"a0 a1/20 a1 a1 a1",
			"0 a[0], 10 a[1], 20 a[2 3 4]",
		},
		{
			"edf with drop gives up the head instead", flat(8), newEDFDrop, 1, "a0 a1/20 a1 a1 a1",
			"0 a[0], 10 a[2 3 4], 10 1 dropped",
		},
		{"least slack takes what has to start soonest", uneven, newSlack, 1, "a0 a1 b2", "0 a[0], 10 b[2], 30 a[1]"},
		{
			"least slack keeps the head too", flat(8), newSlack, 1, "a0 a1/20 a1 a1 a1", "0 a[0], 10 a[1], 20 a[2 3 4]",
		},
		{
			"sfq shares device time by weight", weighted, fair, 1, "a0 a0 a0 b0 b0 b0 b0",
			"0 a[0], 10 b[3], 20 b[4], 30 a[1], 40 b[5], 50 b[6], 60 a[2]",
		},
		{
			"sfq gives no credit for rest", weighted, fair, 1, "b0 b0 b0 b0 a25 a25 a25",
			"0 b[0], 10 b[1], 20 b[2], 30 a[4], 40 b[3], 50 a[5], 60 a[6]",
		},
		{
			"sfq forms batches as edf with drop does", flat(8), fair, 1, "a0 a1/20 a1 a1 a1",
			"0 a[0], 10 a[2 3 4], 10 1 dropped",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := play(t, c.models, c.policy, c.lanes, c.script); got != c.want {
				t.Errorf("%s:\n got %s\nwant %s", c.script, got, c.want)
			}
		})
	}
}

// TestTarget: with 1.05*(9+b) ms in 100 ms a model that saturates the device can batch 38, one with 100 rows a second
// 8.
func TestTarget(t *testing.T) {
	l := newLines(&Env{Models: flat(64), Lanes: 1})
	for rate, want := range map[float64]int{1: 1, 100: 8, 1e6: 38} {
		if got := l.target(0, rate); got != want {
			t.Errorf("at %v rows a second the target is %d, want %d", rate, got, want)
		}
	}
}

// TestClockworkFIFOs compares the readiness of each FIFO with its content.
func TestClockworkFIFOs(t *testing.T) {
	models := flat(8)
	env := &Env{Models: models, Lanes: 1, drop: func(Time, *Request, Fate) {}}
	p := newClockwork(env, 5*time.Millisecond, false)
	rng := rand.New(rand.NewPCG(2, 2))
	now := Time(0)
	for range 3000 {
		now += Time(rng.IntN(6e6))
		p.Arrive(now, &Request{Model: rng.IntN(2), Rows: 1 + rng.IntN(3), Deadline: now + Time(rng.IntN(100e6))})
		if rng.IntN(3) == 0 {
			if b := p.Next(now, 0); b != nil {
				p.Done(now, b, env.Models[b.Model].Cost(b.Size))
			}
		}
		for i, fifos := range p.fifos {
			q := &p.all[i]
			sizes := p.models[q.model].sizes
			for s, skip := range fifos {
				rows := 0
				for j := skip; j < q.n; j++ {
					rows += q.at(j).Rows
				}
				if rows == 0 || q.at(skip).Rows > sizes[max(s-1, 0)] {
					continue // the rows do not decide
				}
				if got := p.demand(i, s); got != (rows >= sizes[s]) {
					t.Fatalf("FIFO %d of line %d has %d rows for %d, and is ready: %v", s, i, rows, sizes[s], got)
				}
			}
		}
	}
}

// TestMeasured shows that the policies that measure use their measurements.
func TestMeasured(t *testing.T) {
	env := &Env{Models: flat(2), Lanes: 1}
	clock := newClockwork(env, 5*time.Millisecond, false)
	for i := range 2 * clockworkMeasurements {
		took := 12 * time.Millisecond
		if i == clockworkMeasurements {
			took = 30 * time.Millisecond
		}
		clock.Done(0, &Batch{Model: 0, Rows: 1, Size: 1}, took)
		want := 12 * time.Millisecond
		if i >= clockworkMeasurements {
			want = 30 * time.Millisecond // the largest of the last 10
		}
		if got := time.Duration(clock.models[0].estimate[0]); got != want {
			t.Errorf("after %d measurements the estimate is %v, want %v", i+1, got, want)
		}
	}
	clock.Done(0, &Batch{Model: 0, Rows: 1, Size: 1}, 12*time.Millisecond)
	if got := time.Duration(clock.models[0].estimate[0]); got != 12*time.Millisecond {
		t.Errorf("the estimate is %v although 30ms is longer ago than 10 measurements", got)
	}

	fair := newSFQ(env)
	fair.Arrive(0, &Request{Rows: 1, Deadline: Time(time.Second)})
	fair.Done(0, fair.Next(0, 0), 25*time.Millisecond)
	if got := time.Duration(fair.tag[0]); got != 25*time.Millisecond {
		t.Errorf("after a batch of 25ms the tag is %v", got)
	}
}
