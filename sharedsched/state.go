package sharedsched

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/weftserve/weft/sharedsched/cost"
	"github.com/weftserve/weft/sharedsched/fairq"
)

// State is a copy of a scheduler's state at one moment, for people and their tools.
type State struct {
	Now         Time
	Draining    bool
	QueuedBytes int64
	Devices     []DeviceState
	Flows       []FlowState
	Versions    []VersionState // by id
	Decisions   []Decision     // the newest first
	Accounts    []Account      // by name and device, of versions that are gone, too
}

// DeviceState describes a device.
type DeviceState struct {
	Device
	InFlight    int
	First       LaneID        // of its lanes, whose numbers follow each other
	Running     []BatchEvent  // the batches in flight
	Busy        time.Duration // time of its lanes with a batch in flight, ever; see device.busy
	VirtualTime fairq.Tag     // of foreground work
	Demanding   int           // flows that demand service
	Lag         fairq.Tag     // of the flow furthest behind after the one furthest ahead, among those
	LagBound    time.Duration // on Lag, by the targets and batches at hand: T + C/w of the package comment
	Work        time.Duration // device time that the waiting foreground tasks are expected to take
	Cap         time.Duration // most device time of one batch for the sake of waiting tasks; 0: none
	Exposed     Exposure      // the least target that cannot be kept beside the longest row of another flow
	// The factors by which executions take longer than in the device's reference state: for its clock, for other
	// processes that use it, the residual, which neither explains, and for waiting.
	Clock, CoTenant, Residual, Waits float64
	Throttled                        bool // the hardware holds the clock down
	// The device's memory as telemetry reported it, less that taken by executions since, in bytes; both 0: unknown.
	MemoryFree, MemoryTotal int64
}

// FlowState describes a flow.
type FlowState struct {
	ID     FlowID
	Name   string
	Device string
	Weight float64
	Start  fairq.Tag     // start tag of its foreground work
	Served time.Duration // device time, ever
	// Demanding says that a batch of it is full or must start soon, Beyond that it asks for more than its share, and Lead
	// how far it then is ahead of the flow furthest behind for which both are true.
	Demanding, Beyond bool

	Lead fairq.Tag
	Work time.Duration // device time that its waiting foreground tasks are expected to take
}

// VersionState describes a version and its queues.
type VersionState struct {
	ID         VersionID
	Name       string
	Flow       FlowID
	Settings   Settings
	Queued     int // foreground tasks that wait
	Background int // background tasks that wait
	Waiting    int // callers that wait for room, where the settings have them wait; not for Core to know
	Live       int // tasks that wait or run
	Closing    bool
	Queues     []QueueState // by key and identity
	Costs      []CostState  // by shape key
}

// QueueState describes a queue: the tasks of one version that may share an execution.
type QueueState struct {
	Key         string // not printable in general
	Flow        FlowID // the flow that its tasks belong to: the version's, or that of an identity
	Identity    string // "": of the version's flow
	Tasks, Rows int    // waiting
	Running     int    // batches in flight
	MaxRows     int    // of one batch, now
	MemoryRows  int    // of one batch, as far as device memory goes; 0: it sets no limit
	// OutOfMemory: an execution ran out of memory, and for that long MemoryRows is not raised without telemetry's word.
	OutOfMemory time.Duration
	Stage       string        // resting, pending or demanding
	NextCost    time.Duration // of the next batch, unless resting
	Slack       time.Duration // until it must start to meet its first target, unless resting
}

// CostState is the known cost of one shape.
type CostState struct {
	ShapeKey string // not printable in general
	Entries  []cost.Entry
	cost.Explanation
}

// State returns a copy of the state. Of a device that was removed it has only the versions that have tasks running
// there.
func (c *Core) State(now Time) State {
	s := State{
		Now: now, Draining: c.draining, QueuedBytes: c.queuedBytes, Decisions: c.log.latest(),
		Accounts: c.accountStates(),
	}
	for _, d := range c.devices {
		fair := &d.fair[foreground]
		ds := DeviceState{
			Device: d.Device, InFlight: d.inFlight, Busy: d.busyAt(now), VirtualTime: fair.Now(),
			Demanding: d.demanding(foreground), Work: d.work, Cap: d.cap.most, Exposed: c.exposure(now, d),
		}
		ds.Clock, ds.CoTenant, ds.Residual, ds.Waits = d.state.Factors()
		ds.First = -1
		for _, l := range c.lanes {
			if l == nil || l.device != d {
				continue
			}
			if ds.First < 0 {
				ds.First = l.id
			}
			if l.running {
				ds.Running = append(ds.Running, l.batch)
			}
		}
		ds.Throttled, ds.MemoryFree, ds.MemoryTotal = d.state.Throttled(), d.memory.free, d.memory.total
		s.Devices = append(s.Devices, ds)
	}
	for _, f := range c.flows {
		if f == nil || f.device.removed {
			continue
		}
		fair := &f.device.fair[foreground]
		fs := FlowState{
			ID: f.id, Name: f.name, Device: f.device.Name, Weight: f.weight, Start: fair.Start(fairq.Flow(f.id)),
			Served: f.served, Work: f.work,
		}
		fs.Demanding, fs.Beyond = f.first[foreground] != nil, f.beyond
		if fair.Demands(fairq.Flow(f.id)) {
			fs.Lead = fair.Lead(fairq.Flow(f.id))
			lag := &s.Devices[slices.Index(c.devices, f.device)].Lag
			*lag = max(*lag, fs.Lead)
			if q := f.first[foreground]; q != nil {
				bound := &s.Devices[slices.Index(c.devices, f.device)].LagBound
				*bound = max(*bound, q.due.Sub(c.tasks[q.ring.At(0).Task].arrival)+time.Duration(float64(q.cost)/f.weight))
			}
		}
		s.Flows = append(s.Flows, fs)
	}
	for _, v := range c.versions {
		if v != nil {
			s.Versions = append(s.Versions, c.versionState(now, v))
		}
	}
	return s
}

// versionState returns a copy of the state of a version, its queues and shapes in the order of their keys.
func (c *Core) versionState(now Time, v *version) VersionState {
	s := VersionState{
		ID: v.id, Name: v.name, Flow: v.flow.id, Settings: v.settings, Live: v.live, Closing: v.closing,
	}
	s.Settings.AllowedBatchSizes = slices.Clone(v.settings.AllowedBatchSizes)
	for _, q := range slices.SortedFunc(maps.Values(v.queues), func(a, b *queue) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.flow.identity, b.flow.identity))
	}) {
		if q.alone && q.isIdle() && slices.ContainsFunc(q.shape.queues, func(o *queue) bool { return !o.alone }) {
			continue // others of the shape show what it was good for
		}
		s.Queued += q.foreground
		s.Background += q.ring.Len() - q.foreground
		most, _, _ := c.fullBatch(q)
		qs := QueueState{
			Key: q.key, Flow: q.flow.id, Identity: q.flow.identity,
			Tasks: q.ring.Len(), Rows: q.waiting, Running: q.running, MaxRows: most,
			Stage: q.stage.String(),
		}
		if rows := q.mayTake(); rows < v.settings.MaxBatchSize {
			qs.MemoryRows = rows
		}
		if u := &q.shape.memory; u.most > 0 {
			qs.OutOfMemory = max(0, u.until.Sub(now))
		}
		if q.stage != resting {
			qs.NextCost, qs.Slack = q.cost, q.latest.Sub(now)
		}
		s.Queues = append(s.Queues, qs)
	}
	for _, key := range slices.Sorted(maps.Keys(v.shapes)) {
		s.Costs = append(s.Costs, CostState{key, v.shapes[key].Entries(), v.shapes[key].Explain()})
	}
	return s
}
