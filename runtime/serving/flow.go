package serving

import (
	"fmt"
	"sync"

	"github.com/weftserve/weft/runtime/fleet/placement"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/sharedsched"
)

// flows are the scheduler's flows of versions: one per version and device, or one per model and device; two while a
// weight is being changed. The scheduler makes the flows of identities by itself, when a task first names one.
type flows struct {
	sched Scheduler

	mu    sync.Mutex
	known map[flowKey]*flow // guarded by mu
}

// flowKey says which replicas share a flow.
type flowKey struct {
	name   string
	device placement.DeviceID // the flows of a device that was lost are not those of the one that came back
	weight float64
	// byIdentity: it is for requests whose caller is not known. Each of the others is charged to its caller's flow.
	byIdentity bool
}

// flow is removed from the scheduler when its last replica has left.
type flow struct {
	id   sharedsched.FlowID
	uses int // versions
}

// flowName returns the name of the flow that a version's device time is charged to: the model's, or the version's own.
func flowName(model string, number int64, f modelrepo.Fairness) string {
	if f == modelrepo.FairModel {
		return model
	}
	return fmt.Sprintf("%s@%d", model, number)
}

// use returns the flow of a key, and makes it at the first use. Each use needs a release. mu is held across the call of
// the scheduler, so that no second flow of the key is made meanwhile.
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

// release gives up one use of a flow, and removes the flow with the last. The replica must be out of the scheduler.
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
