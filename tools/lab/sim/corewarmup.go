package sim

import "github.com/weftserve/weft/sharedsched"

// warmUp makes the core measure the model as the server does before it serves it: made-up requests of 1, 2, 4, ...
// rows, each size three times, on an otherwise idle device, charged to none of its flows. It measures the profiled
// costs, wrong ones included. It panics if the scheduler runs none of them, which no run would survive.
func (p *corePolicy) warmUp(model int) {
	m := &p.env.Models[model]
	b := &p.lanes[0].core
	for _, key := range p.keys[:max(1, m.Keys)] {
		for rows := 1; ; rows = min(2*rows, m.MaxBatch) {
			for range 3 {
				t := sharedsched.Task{Rows: rows, Key: key, ShapeKey: key, Alone: true, Identity: "warm-up"}
				must(p.step(Time(p.offset), &sharedsched.Event{
					Kind: sharedsched.EventSubmit, Version: p.versions[model], Task: &t, Limit: Never,
				}))
				must(p.step(Time(p.offset), &sharedsched.Event{Kind: sharedsched.EventNext, Batch: b}))
				if !p.out.OK {
					panic("sim: the scheduler does not run a request on an idle device")
				}
				p.offset += p.env.Profile(model, rows)
				must(p.step(Time(p.offset), &sharedsched.Event{
					Kind: sharedsched.EventSettle, Batch: b, Report: &sharedsched.Report{},
				}))
			}
			if rows == m.MaxBatch {
				break
			}
		}
	}
}
