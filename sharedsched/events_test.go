package sharedsched

import "github.com/weftserve/weft/sharedsched/cost"

// These methods put each kind of event as a call, for tests that are easier to read so. All of them go through Step.

func (c *Core) AddFlow(name, device string, weight float64) (FlowID, error) {
	var out Answer
	err := c.Step(0, &Event{Kind: EventAddFlow, Name: name, Device: device, Weight: weight}, &out)
	return out.Flow, err
}

func (c *Core) RemoveFlow(f FlowID) { c.happened(0, &Event{Kind: EventRemoveFlow, Flow: f}, nil) }

func (c *Core) AddVersion(name string, f FlowID, s Settings) (VersionID, error) {
	var out Answer
	err := c.Step(0, &Event{Kind: EventAddVersion, Name: name, Flow: f, Settings: &s}, &out)
	return out.Version, err
}

func (c *Core) Inherit(v, from VersionID, moved bool) {
	c.happened(0, &Event{Kind: EventInherit, Version: v, From: from, Moved: moved}, nil)
}

func (c *Core) Observe(now Time, device string, s cost.Sample) {
	c.happened(now, &Event{Kind: EventObserve, Device: device, Sample: &s}, nil)
}

func (c *Core) Configure(now Time, v VersionID, s Settings) error {
	return c.Step(now, &Event{Kind: EventConfigure, Version: v, Settings: &s}, &Answer{})
}

func (c *Core) RemoveVersion(now Time, v VersionID, acts []Action) []Action {
	return c.happened(now, &Event{Kind: EventRemoveVersion, Version: v}, acts).Actions
}

func (c *Core) Expel(now Time, v VersionID, acts []Action) []Action {
	return c.happened(now, &Event{Kind: EventExpel, Version: v}, acts).Actions
}

func (c *Core) Hurry(now Time) { c.happened(now, &Event{Kind: EventHurry}, nil) }

func (c *Core) Drain(now Time) { c.happened(now, &Event{Kind: EventDrain}, nil) }

func (c *Core) Close(now Time, acts []Action) []Action {
	return c.happened(now, &Event{Kind: EventClose}, acts).Actions
}

func (c *Core) Advance(now Time, acts []Action) []Action {
	return c.happened(now, &Event{Kind: EventAdvance}, acts).Actions
}

func (c *Core) Submit(now Time, v VersionID, t *Task, limit Time, acts []Action) (Handle, []Action, error) {
	out := Answer{Actions: acts}
	err := c.Step(now, &Event{Kind: EventSubmit, Version: v, Task: t, Limit: limit}, &out)
	return out.Task, out.Actions, err
}

func (c *Core) Cancel(now Time, h Handle, acts []Action) (bool, []Action) {
	out := c.happened(now, &Event{Kind: EventCancel, Handle: h}, acts)
	return out.OK, out.Actions
}

func (c *Core) Next(now Time, lane LaneID, b *Batch, acts []Action) (bool, []Action) {
	out := c.happened(now, &Event{Kind: EventNext, Lane: lane, Batch: b}, acts)
	return out.OK, out.Actions
}

func (c *Core) Settle(now Time, lane LaneID, b *Batch, r Report, acts []Action) (BatchEvent, []Action) {
	out := c.happened(now, &Event{Kind: EventSettle, Lane: lane, Batch: b, Report: &r}, acts)
	return out.Batch, out.Actions
}

// happened passes an event that has no error to the core.
func (c *Core) happened(now Time, ev *Event, acts []Action) Answer {
	out := Answer{Actions: acts}
	if err := c.Step(now, ev, &out); err != nil {
		panic(err)
	}
	return out
}

func (c *Core) AddDevice(d Device) (LaneID, error) {
	var out Answer
	err := c.Step(0, &Event{Kind: EventAddDevice, Added: &d}, &out)
	return out.Lane, err
}

func (c *Core) RemoveDevice(now Time, name string, acts []Action) ([]Action, error) {
	out := Answer{Actions: acts}
	err := c.Step(now, &Event{Kind: EventRemoveDevice, Device: name}, &out)
	return out.Actions, err
}

// shapeOf returns a shape of a version, as a task without identity would ask for it.
func (c *Core) shapeOf(id VersionID, key string) *shape {
	v := c.version(id)
	return v.shape(key, v.flow.tenancy(v), 0, &v.flow.device.state)
}
