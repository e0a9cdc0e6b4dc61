package sharedsched

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/race"
)

// TestDeadlines searches for a counter-example to the bound on deadlines of the package comment: one lane, exact
// estimates, models of all kinds, arrivals alone and in bursts.
func TestDeadlines(t *testing.T) {
	seeds := uint64(2000)
	if testing.Short() || race.Enabled {
		seeds /= 20 // one goroutine decides
	}
	starts, late := 0, 0
	for seed := range seeds {
		s, l := playDeadlines(t, seed)
		starts += s
		late += l
	}
	t.Logf("%d first tasks started, %d of them late for their targets", starts, late)
	if late == 0 {
		t.Error("none was late: this proves nothing")
	}
}

// head is what a queue's first task may count on.
type head struct {
	task    int32
	from    Time          // it arrived, or the batch that ran then ended
	demands Time          // its queue does since; Never: not yet
	planned time.Duration // the least its batch was expected to take since it is the first
	before  time.Duration // of batches that were due before it since its queue demands
}

func playDeadlines(t *testing.T, seed uint64) (starts, late int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 7))
	c, err := NewCore(Config{
		Devices: []Device{{Name: "d", Lanes: 1}}, Variant: Variant{NoAdmission: true, NoFloodRule: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	ms := func(least, most float64) time.Duration {
		return time.Duration((least + rng.Float64()*rng.Float64()*(most-least)) * float64(time.Millisecond))
	}
	type model struct {
		version   VersionID
		base, row time.Duration
		target    time.Duration
		rows      int
	}
	models := make([]model, 2+rng.IntN(5))
	for i := range models {
		f, err := c.AddFlow("f", "d", 1)
		if err != nil {
			t.Fatal(err)
		}
		m := &models[i]
		*m = model{base: ms(0.1, 30), row: ms(0.01, 2), target: ms(5, 400), rows: 1 + rng.IntN(8)}
		s := Settings{Batched: rng.IntN(4) > 0, MaxBatchSize: 1 << rng.IntN(7)}
		if m.version, err = c.AddVersion("v", f, s); err != nil {
			t.Fatal(err)
		}
		curve := c.shapeOf(m.version, "")
		for range 3 {
			for _, rows := range []int{1, 2, 4, 8, 16, 32, 64} {
				curve.Settle(curve.Begin(rows), m.base+m.row*time.Duration(rows))
			}
		}
	}
	heads := map[*queue]*head{}
	var b *Batch
	now, ends := Time(0), Never
	look := func() { // after each event
		for _, q := range c.queues {
			h := heads[q]
			if q.ring.Len() == 0 || q.stage == resting || q.flow.beyond {
				delete(heads, q)
				continue
			}
			if slot := q.ring.At(0).Task; h == nil || h.task != slot {
				h = &head{task: slot, from: now, demands: Never, planned: q.cost}
				if ends != Never {
					h.from = ends
				}
				heads[q] = h
			}
			h.planned = min(h.planned, q.cost)
			if q.stage == demanding {
				h.demands = min(h.demands, now)
			}
		}
	}
	for range 150 {
		switch {
		case ends != Never && rng.IntN(3) > 0:
			now, ends = ends, Never
			c.Settle(now, 0, b, Report{DeviceTime: now.Sub(c.lanes[0].started)}, nil)
		default:
			next := now.Add(ms(0, 40))
			if wake := c.NextWake(); ends == Never && wake < next { // the device waits for callers
				now = max(now, wake)
				break
			}
			if next < ends {
				now = next
			}
			m := &models[rng.IntN(len(models))]
			for range 1 + rng.IntN(6)*rng.IntN(2) {
				task := Task{Rows: 1 + rng.IntN(m.rows), Target: m.target + ms(0, 20)}
				if _, _, err := c.Submit(now, m.version, &task, Never, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		look()
		if ends != Never {
			continue
		}
		c.Advance(now, nil)
		look()
		before := map[*queue]head{}
		for q, h := range heads {
			before[q] = *h
		}
		b = &Batch{}
		ok, _ := c.Next(now, 0, b, nil)
		if !ok {
			continue
		}
		l := c.lanes[0]
		ends = now.Add(l.est.Cost)
		h, known := before[l.queue]
		within := !l.queue.flow.beyond
		if within {
			starts++
			first := c.get(b.Spans[0].task)
			latest := endBy(first.due, first.arrival) - Time(l.est.Cost+l.est.Cost/margin)
			grown := max(0, l.est.Cost-h.planned)
			allowed := max(latest, h.from).Add(h.before + grown + grown/margin + 1)
			if now > latest {
				late++
			}
			if known && h.task == b.Spans[0].task.Slot() && now > allowed {
				t.Fatalf("seed %d: a task of %v starts at %v, should have at %v; its queue demands since %v, %v were due before "+
					"it, its batch was to take %v and takes %v", seed, first.arrival, now, latest, h.demands, h.before, h.planned,
					l.est.Cost)
			}
		}
		look()
		for q, h := range heads {
			if h.demands != Never && within && l.due <= q.due {
				h.before += l.est.Cost
			}
		}
	}
	return starts, late
}
