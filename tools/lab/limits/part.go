package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/weftserve/weft/tools/lab/harness"
)

// partLoad is an open loop of which a server can do more: so many requests a second, or a part of what it can do.
type partLoad struct {
	model string
	rate  float64
	part  float64
}

var partLoads = []partLoad{
	{model: policyName, rate: 1000},
	{model: policyName, rate: 8000},
	{model: networkName, part: 0.2},
	{model: networkName, part: 0.5},
	{model: networkName, part: 0.8},
	{model: networkName, part: 0.95},
}

func (l *partLoad) scene() string {
	if l.part > 0 {
		return fmt.Sprintf("%s at %.0f %%", l.model, 100*l.part)
	}
	return fmt.Sprintf("%s, %.0f/s", l.model, l.rate)
}

const (
	perfectP50 = "perfect p50 ms"
	perfectP99 = "perfect p99 ms"
)

// part has requests come one by one, at times of their own. A perfect batcher shows what the network could be like.
func (r *round) part() error {
	paces, err := engine(r.ctx, r.place.server, modelPath(r.folder+"/models", networkName), r.effort.engine)
	if err != nil {
		return err
	}
	l := load{model: networkName, callers: manyCallers}
	if err := r.closed("capacity, before part load", l, echoBytes, weftDevice); err != nil {
		return err
	}
	of := func(target, figure string) float64 {
		return r.book.figures[key{r.place.name, r.scene, target, figure}][r.number]
	}
	capacity, echoUs := of(weftDevice, answersFigure), of(echoBytes, cpuFigure)
	for _, l := range partLoads {
		r.scene = l.scene()
		rate := l.rate + l.part*capacity
		for _, name := range append([]string{echoBytes}, r.overloaded()...) {
			m, err := r.open(func() (measured, error) {
				return r.bench(r.servers[name], load{model: l.model, rate: rate, deadline: safety})
			})
			if err != nil {
				return err
			}
			if m.late() {
				continue
			}
			r.note(name, offeredFigure, float64(m.Sent)/m.span)
			r.note(name, cpuFigure, m.cpuUs)
			r.note(name, p50Figure, m.LatencyMs.P50)
			r.note(name, p99Figure, m.LatencyMs.P99)
			r.note(name, batchRows, m.Server.BatchRows)
			if l.part > 0 && name != echoBytes {
				p50, p99 := perfect(rate, paces, echoUs, len(r.place.server), uint64(r.number))
				r.note(name, perfectP50, p50)
				r.note(name, perfectP99, p99)
			}
		}
	}
	return nil
}

// perfect returns the percentiles of the latency, in milliseconds, of a batcher without any work of its own: each of
// its processors takes all requests that wait as soon as it is idle. It answers them together, so that a batcher that
// divides them better can be faster. It pays for their batch what the engine alone
// takes, and for each request what an echo takes. Requests come by a Poisson process.
func perfect(rate float64, paces []pace, echoUs float64, processors int, seed uint64) (p50, p99 float64) {
	const requests = 50_000
	rng := rand.New(rand.NewPCG(seed, 1))
	came, now := make([]float64, requests), 0.0
	for i := range came {
		now += rng.ExpFloat64() / rate * 1e6
		came[i] = now
	}
	free, took := make([]float64, processors), make([]float64, 0, requests)
	most := paces[len(paces)-1].Batch
	for first := 0; first < requests; {
		idle := 0 // the processor that is idle first
		for i := range free {
			if free[i] < free[idle] {
				idle = i
			}
		}
		begins := max(free[idle], came[first])
		next := first + 1
		for next < requests && next-first < most && came[next] <= begins {
			next++
		}
		ends := begins + batchUs(paces, next-first) + float64(next-first)*echoUs
		for ; first < next; first++ {
			took = append(took, ends-came[first])
		}
		free[idle] = ends
	}
	slices.Sort(took)
	return took[requests/2] / 1000, took[requests*99/100] / 1000
}

// batchUs returns how long a batch of so many rows takes, between two that were measured by their line.
func batchUs(paces []pace, rows int) float64 {
	i := slices.IndexFunc(paces, func(p pace) bool { return p.Batch >= rows })
	if i <= 0 {
		return paces[max(i, 0)].BatchUs
	}
	below, above := paces[i-1], paces[i]
	part := float64(rows-below.Batch) / float64(above.Batch-below.Batch)
	return below.BatchUs + part*(above.BatchUs-below.BatchUs)
}

func (j *judge) part() {
	for _, l := range partLoads {
		for _, of := range []struct {
			measured, perfect string
			aim               float64
		}{{p50Figure, perfectP50, 1.5}, {p99Figure, perfectP99, 2}} {
			ratio := j.of(l.scene(), j.server, of.measured).over(j.of(l.scene(), j.server, of.perfect))
			if l.part >= 0.5 && !math.IsNaN(ratio.median()) {
				j.atMost(of.aim, ratio, l.scene()+": "+of.measured[:3]+" over a perfect batcher's", "%.2f")
			}
		}
	}
}

// partLoads shows part loads.
func (c *runCommand) partLoads(b *book, places []place) *harness.Table {
	t := &harness.Table{
		Title: "Part load",
		About: "Requests of one row that come by a Poisson process. A perfect batcher, computed, has no work of its own: " +
			"when it is idle it takes all that waits, and pays for the batch what ONNX Runtime takes and for each request " +
			"what the bytes echo takes.",
		Columns: []string{
			"load", "processors", "server", "offered/s", "processor time, us", "p50, ms", "p99, ms", "rows in a batch",
			"perfect: p50, ms", "p99, ms",
		},
	}
	for _, l := range partLoads {
		for _, p := range places {
			for _, server := range append([]string{echoBytes}, c.names()...) {
				of := func(figure, format string) string {
					return b.figures[key{p.name, l.scene(), server, figure}].cell(format)
				}
				if len(b.figures[key{p.name, l.scene(), server, cpuFigure}]) > 0 {
					t.Add(l.scene(), p.name, server, of(offeredFigure, "%.0f"), of(cpuFigure, "%.1f"), of(p50Figure, "%.3f"),
						of(p99Figure, "%.3f"), of(batchRows, "%.1f"), of(perfectP50, "%.3f"), of(perfectP99, "%.3f"))
				}
			}
		}
	}
	return t
}
