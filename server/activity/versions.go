package activity

import (
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/sharedsched"
)

// devices returns the state of the devices that versions in view are on, or that were lost.
func (v *view) devices(gpus map[string]*weftv1.GpuActivity) []*weftv1.DeviceActivity {
	var all []*weftv1.DeviceActivity
	lost := map[string]string{}
	if v.looked != nil {
		for _, l := range v.looked.Lost {
			lost[l.Name] = l.Cause
		}
	}
	for i := range v.state.Devices {
		d := &v.state.Devices[i]
		var busy time.Duration
		used := false
		for _, t := range v.order {
			if t.device == d.Name {
				used = true
				busy += v.sumOf(t).busy
			}
		}
		if !used && lost[d.Name] == "" {
			continue
		}
		all = append(all, &weftv1.DeviceActivity{
			Name: d.Name, Lanes: uint32(d.Lanes), FirstLane: uint32(d.First),
			BusySeconds: v.busy[d.Name].Seconds(), BusyShare: v.part(busy, d.Lanes),
			LagMs: ms(time.Duration(d.Lag)), LagBoundMs: ms(d.LagBound), WorkMs: ms(d.Work),
			Lost: lost[d.Name], Gpu: gpus[d.Name],
		})
	}
	return all
}

// part returns a device time as a part of what the window has on a device with so many lanes: 1 if all of them were
// busy all the time.
func (v *view) part(busy time.Duration, lanes int) float64 {
	return digits(float64(busy) / float64(v.window) / float64(max(1, lanes)))
}

// sumOf returns what a version did in the window. It is summed once for each view.
func (v *view) sumOf(t *tracked) *slot {
	s := v.sums[t]
	if s == nil {
		s = &slot{}
		if t.latest >= v.from {
			*s = t.sum(v.from)
		}
		v.sums[t] = s
	}
	return s
}

// versions adds the versions in order. It must come before all that adds others by placeOf.
func (v *view) versions() {
	entitled := v.entitlements()
	for _, t := range v.order {
		v.out.Versions = append(v.out.Versions, v.version(t, entitled[t]))
	}
}

// version returns the state of a version. entitled is the part of its device that it is entitled to.
func (v *view) version(t *tracked, entitled float64) *weftv1.VersionActivity {
	s := v.sumOf(t)
	seconds := v.window.Seconds()
	lanes := v.lanes[t.device]
	a := &weftv1.VersionActivity{
		Model: t.model, Version: int32(t.version), Device: t.device, Slot: t.slotName,
		Share: v.part(s.busy, lanes), BackgroundShare: v.part(s.background, lanes), EntitledShare: digits(entitled),
		RequestsPerSecond: digits(float64(s.answered) / seconds), BatchesPerSecond: digits(float64(s.batches) / seconds),
		RowsPerBatch: digits(float64(s.rows) / float64(max(1, s.batches))),
		P50Ms:        digits(s.latency.quantile(0.5)), P99Ms: digits(s.latency.quantile(0.99)),
	}
	if t.resident != nil {
		a.Weight, a.TargetMs, a.LimitMs = t.resident.Weight, ms(t.resident.TargetLatency), ms(t.resident.MaxLatency)
	}
	for _, id := range t.ids {
		if queue := v.queues[id]; queue != nil {
			// Also the callers in line before a full queue, and background work.
			a.Waiting += uint32(queue.Queued + queue.Background + queue.Waiting)
		}
	}
	a.LastMinute = &weftv1.LastMinute{}
	if m := t.minute; m != nil {
		a.LastMinute.Late, a.LastMinute.Lost = m.late.since(v.minute), m.lost.since(v.minute)
	}
	n := &t.totals
	a.Totals = &weftv1.VersionTotals{
		Batches: float64(n.batches), Rows: float64(n.rows), PaddedRows: float64(n.padded), BusySeconds: n.busy.Seconds(),
		Answered: float64(n.answered), Late: float64(n.late),
		Flushes: map[string]float64{}, Lost: map[string]float64{},
	}
	for reason, count := range n.flushes {
		if count > 0 {
			a.Totals.Flushes[sharedsched.FlushReason(reason).String()] = float64(count)
		}
	}
	for reason, count := range t.lost {
		a.Totals.Lost[reason] = float64(count)
	}
	return a
}

// entitlements returns the part of its device that each version is entitled to: the weight of its flow in relation to
// those of the flows of that device that were active in the window. Versions of one flow have its part in the relation
// of what they used, or equal parts if they used nothing. A version that rested is entitled to nothing now. First the
// weights of each device are added up, then each flow's part is divided among its versions.
func (v *view) entitlements() map[*tracked]float64 {
	type flow struct {
		weight   float64
		busy     time.Duration
		versions []*tracked
	}
	flows := map[sharedsched.FlowID]*flow{}
	weights := map[string]float64{} // by device, of active flows
	for i := range v.state.Flows {
		f := &v.state.Flows[i]
		flows[f.ID] = &flow{weight: f.Weight}
	}
	for _, t := range v.order {
		sum := v.sumOf(t)
		for _, id := range t.ids {
			state := v.queues[id]
			// Others may have all that the background uses, and nothing is due to what waits there.
			if state == nil || sum.busy <= sum.background && state.Queued+state.Waiting == 0 {
				continue
			}
			f := flows[state.Flow]
			if f == nil {
				continue
			}
			if len(f.versions) == 0 {
				weights[t.device] += f.weight
			}
			f.versions, f.busy = append(f.versions, t), f.busy+v.sumOf(t).busy
		}
	}
	out := map[*tracked]float64{}
	for _, f := range flows {
		for _, t := range f.versions {
			part := 1 / float64(len(f.versions))
			if f.busy > 0 {
				part = float64(v.sumOf(t).busy) / float64(f.busy)
			}
			out[t] += f.weight / weights[t.device] * part
		}
	}
	return out
}
