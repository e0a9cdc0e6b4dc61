package sharedsched

import (
	"maps"
	"slices"
	"time"

	"github.com/weftserve/weft/sharedsched/cost"
	"github.com/weftserve/weft/sharedsched/fairq"
)

// State is a copy of what a scheduler knows at one moment, for people and their tools.
type State struct {
	Now         Time
	Draining    bool
	QueuedBytes int64
	Devices     []DeviceState
	Flows       []FlowState
	Versions    []VersionState // by id
	Decisions   []Decision     // the newest first
}

// DeviceState describes a device.
type DeviceState struct {
	Device
	InFlight    int
	Busy        time.Duration // time with a batch in flight, ever
	VirtualTime fairq.Tag     // of foreground work
}

// FlowState describes a flow.
type FlowState struct {
	ID     FlowID
	Name   string
	Device string
	Weight float64
	Start  fairq.Tag     // start tag of its foreground work
	Served time.Duration // device time, ever
}

// VersionState describes a version and its queues.
type VersionState struct {
	ID         VersionID
	Name       string
	Flow       FlowID
	Settings   Settings
	Queued     int // foreground tasks that wait
	Background int // background tasks that wait
	Live       int // tasks that wait or run
	Closing    bool
	Queues     []QueueState // by key
	Costs      []CostState  // by shape key
}

// QueueState describes a queue: the tasks of one version that may share an execution.
type QueueState struct {
	Key         string // not printable in general
	Tasks, Rows int    // waiting
	Running     int    // batches in flight
	MaxRows     int    // of one batch, now
}

// CostState is what is known of the cost of one shape.
type CostState struct {
	ShapeKey string // not printable in general
	Entries  []cost.Entry
}

// State returns a copy of the state.
func (c *Core) State(now Time) State {
	s := State{Now: now, Draining: c.draining, QueuedBytes: c.queuedBytes, Decisions: c.log.latest()}
	for i := range c.devices {
		d := &c.devices[i]
		busy := d.busy
		if d.inFlight > 0 {
			busy += now.Sub(d.since)
		}
		s.Devices = append(s.Devices, DeviceState{d.Device, d.inFlight, busy, d.fair[foreground].Now()})
	}
	for i := range c.flows {
		f := &c.flows[i]
		if f.removed {
			continue
		}
		d := &c.devices[f.device]
		s.Flows = append(s.Flows, FlowState{
			FlowID(i), f.name, d.Name, f.weight, d.fair[foreground].Start(fairq.Flow(i)), f.served,
		})
	}
	for _, v := range c.versions {
		if v != nil {
			s.Versions = append(s.Versions, c.versionState(v))
		}
	}
	return s
}

func (c *Core) versionState(v *version) VersionState {
	s := VersionState{ID: v.id, Name: v.name, Flow: v.flow, Settings: v.settings, Queued: v.queued[foreground], Background: v.queued[background], Live: v.live, Closing: v.closing}
	s.Settings.AllowedBatchSizes = slices.Clone(v.settings.AllowedBatchSizes)
	for _, key := range slices.Sorted(maps.Keys(v.queues)) {
		q := c.queues[v.queues[key]]
		most, _, _ := c.fullBatch(q)
		s.Queues = append(s.Queues, QueueState{key, q.ring.n, q.waiting, q.running, most})
	}
	for _, key := range slices.Sorted(maps.Keys(v.shapes)) {
		s.Costs = append(s.Costs, CostState{key, v.shapes[key].Entries()})
	}
	return s
}
