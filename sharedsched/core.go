package sharedsched

import (
	"cmp"
	"fmt"

	"github.com/weftserve/weft/sharedsched/fairq"
	"github.com/weftserve/weft/sharedsched/iheap"
)

// Core is the scheduler as a value: every method takes the present time and what happened, changes the state, and appends what
// must be done about it to the caller's slice. It owns no goroutine, reads no clock, draws no random number, and no decision
// iterates a map, so the same events at the same times always lead to the same decisions. See the package comment for its
// states and invariants. It is not safe for concurrent use: Scheduler guards it with a mutex.
type Core struct {
	slab
	devices  []device
	lanes    []lane                 // by LaneID: the batch threads of all devices
	flows    []*flow                // by FlowID; nil once removed
	versions []*version             // by VersionID; nil once removed
	queues   []*queue               // by queue id; nil when free
	accounts map[[2]string]*Account // by name of a version and device

	freeFlows []FlowID // that may be used again
	freeIDs   []int32  // of queues, as well

	limits limits     // of tasks that wait
	holds  iheap.Heap // queues that wait for their batch timeout, by its end

	variant        Variant
	maxQueuedBytes int64
	queuedBytes    int64
	seq            uint64   // tasks ever submitted
	bounded        []*shape // whose executions ran out of memory lately
	touched        []*queue // queues that changed in the present event and are to be refreshed at its end
	hurry          bool     // no batch is held for its timeout
	draining       bool
	log            decisionLog
}

// NewCore returns a core with the devices of the configuration and nothing to do.
func NewCore(cfg Config) (*Core, error) {
	if len(cfg.Devices) == 0 {
		return nil, fmt.Errorf("sharedsched: no device configured; name at least one")
	}
	c := &Core{
		slab: newSlab(), variant: cfg.Variant, maxQueuedBytes: cmp.Or(cfg.MaxQueuedBytes, defaultQueuedBytes), accounts: map[[2]string]*Account{},
	}
	for i, d := range cfg.Devices {
		if d.Lanes < 1 {
			return nil, fmt.Errorf("sharedsched: device %q has %d lanes, must have at least 1", d.Name, d.Lanes)
		}
		c.devices = append(c.devices, device{Device: d, index: int32(i)})
		c.devices[i].fair[foreground].Window = fairq.Tag(cfg.FairnessWindow)
		for range d.Lanes {
			c.lanes = append(c.lanes, lane{device: int32(i)})
		}
	}
	return c, nil
}

// Live returns the number of tasks that have not ended.
func (c *Core) Live() int { return c.live }

func (c *Core) version(id VersionID) *version {
	if id < 0 || int(id) >= len(c.versions) {
		return nil
	}
	return c.versions[id]
}
