package sim

import "fmt"

// allowed reports whether the policy may start a batch, and keeps the fault if not.
func (e *engine) allowed(now Time, b *Batch) bool {
	fault := ""
	rows := 0
	if len(b.Requests) == 0 {
		fault = "is empty"
	}
	for _, r := range b.Requests {
		rows += r.Rows
		switch {
		case r.running:
			fault = "holds a request that is running"
		case r.Fate != Waiting:
			fault = "holds a request that has ended"
		case r.Arrival > now:
			fault = "holds a request that has not arrived"
		case r.Model != b.Model:
			fault = "holds a request of another model"
		case r.Key != b.Requests[0].Key:
			fault = "mixes shape keys"
		}
	}
	if rows != b.Rows {
		fault = fmt.Sprintf("says it has %d rows, it has %d", b.Rows, rows)
	}
	if limit := e.env.Models[b.Model].MaxBatch; len(b.Requests) > 1 && rows > limit {
		fault = fmt.Sprintf("has %d rows, the model allows %d", rows, limit)
	}
	if fault != "" && e.fault == nil {
		e.fault = fmt.Errorf("sim: at %v a batch of model %d %s", now, b.Model, fault)
	}
	return fault == ""
}

// drop is Env.Drop.
func (e *engine) drop(now Time, r *Request, f Fate) {
	if r.Fate != Waiting || r.running || (f != Refused && f != Dropped) {
		if e.fault == nil {
			e.fault = fmt.Errorf("sim: at %v the policy gives up a request of model %d that is running or has ended",
				now, r.Model)
		}
		return
	}
	r.Fate, r.Finish = f, now
	e.waiting--
	e.end(r)
}

// end counts the fate of a request.
func (e *engine) end(r *Request) {
	if r.Fate != OnTime && !r.background() {
		e.missed++
	}
	e.result.tally(r).Fates[r.Fate]++
	e.think(r)
}

// giveUp ends the requests that a policy left in its queues for good.
func (e *engine) giveUp() {
	e.until = 0 // nobody asks again
	for i := range e.requests[:e.arrived] {
		e.waits = append(e.waits, &e.requests[i])
	}
	for _, r := range e.waits {
		if r.Fate == Waiting && !r.running && e.fault == nil {
			e.drop(e.lanes.at, r, Dropped)
		}
	}
}
