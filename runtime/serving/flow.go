package serving

import (
	"fmt"
	"sync"

	"github.com/weftserve/weft/runtime/fleet/placement"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/sharedsched"
)

// flows are the owners of device shares: one per version, or one per model and device; two while a weight is being
// changed. Those of identities are the scheduler's: it makes them when a task first names one.
type flows struct {
	sched Scheduler

	mu    sync.Mutex
	known map[flowKey]*flow // guarded by mu
}

type flowKey struct {
	name   string
	device placement.DeviceID // the flows of a device that was lost are not those of the one that came back
	weight float64
	// byIdentity: it is for requests whose caller is not known. Each of the others is charged to its caller's flow.
	byIdentity bool
}

type flow struct {
	id   sharedsched.FlowID
	uses int // versions
}

// flowName is the name of the flow that owns the share that a version's device time is charged to.
func flowName(model string, number int64, f modelrepo.Fairness) string {
	if f == modelrepo.FairModel {
		return model
	}
	return fmt.Sprintf("%s@%d", model, number)
}

// use returns the flow, a new one if it has no version yet. Each use needs a release.
func (f *flows) use(key flowKey) (sharedsched.FlowID, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if have := f.known[key]; have != nil {
		have.uses++
		return have.id, nil
	}
	id, err := f.sched.AddFlow(key.name, key.device.Name, key.weight)
	if err != nil {
		return 0, err
	}
	if f.known == nil {
		f.known = map[flowKey]*flow{}
	}
	f.known[key] = &flow{id: id, uses: 1}
	return id, nil
}

// release forgets the flow with its last version, which must be out of the scheduler.
func (f *flows) release(key flowKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	have := f.known[key]
	have.uses--
	if have.uses == 0 {
		f.sched.RemoveFlow(have.id)
		delete(f.known, key)
	}
}
