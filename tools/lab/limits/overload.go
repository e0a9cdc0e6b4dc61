package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/weftserve/weft/tools/lab/harness"
)

// manner is how the clients of an overloaded server behave.
type manner struct {
	name               string
	deadline, patience time.Duration
	retries            int
}

// manners of the ladder, and of those the ones that a slowdown is tried with.
var (
	hurried   = manner{name: "deadline 50 ms", deadline: 50 * time.Millisecond}
	unhurried = manner{name: "no deadline, given up after 1 s", patience: time.Second}
	insistent = manner{name: "deadline 50 ms, 3 retries", deadline: 50 * time.Millisecond, retries: 3}
	leaving   = manner{name: "no deadline, given up after 1 s, 3 retries", patience: time.Second, retries: 3}

	ladder     = []manner{hurried, unhurried, insistent}
	afterwards = []manner{insistent, leaving}
)

func (m manner) load(rate float64) load {
	return load{
		model: networkName, rows: overloadRows, rate: rate, deadline: m.deadline, patience: m.patience, retries: m.retries,
	}
}

const (
	capacityScene = "capacity, 4 rows each, before "
	slowScene     = "slow for a while, "
)

func ladderScene(m manner, multiple float64) string {
	return fmt.Sprintf("%.3g x, %s", multiple, m.name)
}

// overloaded are the servers that are overloaded: those with the default isolation.
func (r *round) overloaded() []string {
	return slices.DeleteFunc(r.wefts(), func(name string) bool { return name == weftNone })
}

// overloadRows is how many rows each request has. With one row a client on one processor cannot ask a server on another
// for ten times what it can do.
const overloadRows = 4

// capacity has many callers ask the network, and returns the answers a second of a server.
func (r *round) capacity(before, name string) (float64, error) {
	scene := capacityScene + before
	l := load{model: networkName, callers: manyCallers, rows: overloadRows}
	if err := r.closed(scene, l, name); err != nil {
		return 0, err
	}
	return r.book.figures[key{r.place.name, scene, name, answersFigure}][r.number], nil
}

// Figures of open loops.
const (
	goodputFigure  = "in time/s"
	refusalsFigure = "refused or late/s"
	refusedFigure  = "refused p99 ms"
	offeredFigure  = "offered/s"
	lateFigure     = "late executions, %"
)

// overload offers a server more than it can do. The bound is: what it can do, less the time that refusals take of gRPC
// alone.
func (r *round) overload() error {
	for _, name := range r.overloaded() {
		capacity, err := r.capacity(overloadPart, name)
		if err != nil {
			return err
		}
		for _, how := range ladder {
			for _, multiple := range r.effort.multiples {
				r.scene = ladderScene(how, multiple)
				l := how.load(multiple * capacity)
				var before, after harness.Metrics
				m, err := r.open(func() (m measured, err error) {
					s := r.servers[name]
					if before, err = s.Metrics(r.ctx); err != nil {
						return m, err
					}
					if m, err = r.bench(s, l); err != nil {
						return m, err
					}
					after, err = s.Metrics(r.ctx)
					return m, err
				})
				if err != nil {
					return err
				}
				if m.late() {
					continue
				}
				r.note(name, offeredFigure, float64(m.Sent)/m.span)
				r.note(name, goodputFigure, m.GoodputPS)
				r.note(name, refusalsFigure, max(0, float64(m.Attempts)/m.span-m.GoodputPS))
				r.note(name, memoryFigure, m.memory)
				r.note(name, lateFigure, latePart(before, after))
				if m.RefusedMs != nil {
					r.note(name, refusedFigure, m.RefusedMs.P99)
				}
			}
		}
	}
	return nil
}

// open runs an open loop, once more if the client did not keep up, and counts those in which it did not.
func (r *round) open(run func() (measured, error)) (m measured, err error) {
	for range 2 {
		if m, err = run(); err != nil {
			return m, err
		}
		r.book.count(r.place.name, m.late())
		if !m.late() {
			break
		}
	}
	return m, nil
}

// boundOf is what a server that can do so much a second can do while it refuses so many, at so much processor
// time each, in microseconds.
func boundOf(capacity, refusals, costUs float64) float64 {
	return capacity * max(0, 1-refusals*costUs/1e6)
}

// latePart returns which part of the executions between two looks ended too late for all their requests, in percent.
func latePart(before, after harness.Metrics) float64 {
	more := func(name string) float64 { return after.Sum(name) - before.Sum(name) }
	return 100 * more("weft_executions_late_total") / max(1, more("weft_executions_ended_total"))
}
