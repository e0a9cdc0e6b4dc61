package sharedsched

import (
	"fmt"
	"maps"
	"slices"
)

// VersionID names a version that was added to a scheduler. IDs are not reused.
type VersionID int32

// version is one version of a model on one device. It is open until it is removed or expelled, or its device is
// removed; then closing: it takes no tasks, and waiting ones are not held for a batch timeout. It is gone, with an
// action that says so, once none of its tasks is left.
type version struct {
	id       VersionID
	name     string
	flow     *flow
	settings Settings
	revision uint64 // counts changes of settings
	queues   map[address]*queue
	kin      map[string]*kin   // by Task.Key
	latest   *queue            // the one asked for last, which is the likeliest to be asked for next; may be nil
	shapes   map[string]*shape // by Task.ShapeKey
	previous map[string]*shape // the known costs of another version, to begin with
	live     int               // tasks that have not ended
	account  *Account
	proven   int // rows of the largest execution that ran well: its engine has the memory that it needs
	closing  bool
}

// addVersion carries out EventAddVersion.
func (c *Core) addVersion(name string, f FlowID, s Settings) (VersionID, error) {
	if err := s.validate(); err != nil {
		return 0, fmt.Errorf("%w (version %s)", err, name)
	}
	if f < 0 || int(f) >= len(c.flows) || c.flows[f] == nil || c.flows[f].device.removed {
		return 0, fmt.Errorf("sharedsched: version %s is to belong to flow %d, which does not exist", name, f)
	}
	id := VersionID(len(c.versions))
	c.versions = append(c.versions, &version{
		id: id, name: name, flow: c.flows[f], settings: s, account: c.account(name, c.flows[f].device.Name),
		queues: map[address]*queue{}, kin: map[string]*kin{}, shapes: map[string]*shape{},
	})
	return id, nil
}

// configure carries out EventConfigure.
func (c *Core) configure(now Time, id VersionID, s Settings) error {
	v := c.version(id)
	if v == nil {
		return ErrRemoved
	}
	if err := s.validate(); err != nil {
		return fmt.Errorf("%w (version %s)", err, v.name)
	}
	v.settings = s
	v.revision++
	c.touchVersion(v)
	c.refreshTouched(now)
	return nil
}

// inherit carries out EventInherit.
func (c *Core) inherit(id, from VersionID, moved bool) {
	v, p := c.version(id), c.version(from)
	if v == nil || p == nil || v.flow.device != p.flow.device {
		return
	}
	v.previous = p.shapes
	if moved {
		v.proven = max(v.proven, p.proven)
	}
	// In which order shapes inherit makes no difference.
	for key, s := range v.shapes {
		if q := p.shapes[key]; q != nil {
			s.Inherit(&q.Curve)
		}
	}
	c.touchVersion(v)
}

// removeVersion carries out EventRemoveVersion.
func (c *Core) removeVersion(now Time, id VersionID, out *Answer) {
	v := c.version(id)
	if v == nil || v.closing {
		return
	}
	v.closing = true
	c.touchVersion(v)
	c.refreshTouched(now)
	c.retire(v, out)
}

// expel carries out EventExpel.
func (c *Core) expel(now Time, id VersionID, out *Answer) {
	v := c.version(id)
	if v == nil {
		return
	}
	v.closing = true
	c.stopAll(now, EndRemoved, func(q *queue) bool { return q.version == v }, out)
	c.retire(v, out)
}

// retire forgets a closing version whose last task has ended.
func (c *Core) retire(v *version, out *Answer) {
	if !v.closing || v.live > 0 || c.versions[v.id] == nil {
		return
	}
	// In the order of their ids, in which these are used again.
	byID := func(a, b *queue) int { return int(a.id - b.id) }
	for _, q := range slices.SortedFunc(maps.Values(v.queues), byID) {
		c.dropQueue(q)
	}
	for _, f := range c.flows {
		if f != nil {
			delete(f.tenancies, v.id)
		}
	}
	c.versions[v.id] = nil
	out.Actions = append(out.Actions, Action{Kind: VersionGone, Version: v.id})
}
