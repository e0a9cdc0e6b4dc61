package serving

import (
	"fmt"
	"strings"
	"time"

	"github.com/weftserve/weft/internal/owntime"
)

// A replica is stalled while nothing can be expected of it: a run of it hangs and no other has ended well for
// stallTime, runs that hang hold every lane of its device, or its process died and the next one is still not there
// after stallTime. Most processes are replaced long before that, and requests wait for it: anybody who took the server
// for unfit because of it would turn a delay into errors. A replica that is stalled remains so until runs can begin
// again. Time that the process did not have does not count. A pipeline whose steps are requests is stalled while the
// version of a step takes none.
const stallTime = time.Second

// Stalled returns why the version answers nothing at present, although it takes requests; "" if some replica does.
func (v *Version) Stalled() string {
	var all []string
	for _, r := range v.Replicas() {
		why := r.stalled.Load()
		if why == nil {
			return ""
		}
		all = append(all, *why)
	}
	return strings.Join(all, "; ")
}

// Review finds out which replicas are stalled, and notifies the owner if that has changed. It must not be called twice
// at once. While the server hurries, runs that hang are stopped when their respite is over.
func (v *Version) Review() {
	changed := false
	for _, r := range v.Replicas() {
		now := r.stall()
		if r.unit.Hanging() > 0 && v.shared.hurried.Load() && r.Opened.Interrupt != nil {
			r.unit.Clock().AfterFunc(r.unit.Respite(), r.interrupt)
		}
		before := r.stalled.Swap(now)
		switch {
		case now == nil && before == nil, now != nil && before != nil && *now == *before:
			continue
		case now == nil:
			v.shared.Log.Info("version answers again", "event", "version_resumed", "model", v.Model,
				"version", v.Number, "device", r.Device.Name)
		default:
			v.shared.Log.Warn("version answers nothing", "event", "version_stalled", "model", v.Model,
				"version", v.Number, "device", r.Device.Name, "cause", *now)
		}
		changed = true
	}
	if changed {
		v.shared.Owner.Judged(v)
	}
}

// interrupt stops the runs of the session if some still hang: meanwhile they may have ended.
func (r *Replica) interrupt() {
	if r.unit.Hanging() > 0 {
		r.Opened.Interrupt()
	}
}

// stall returns why the replica is stalled, or nil. Where it will be stalled if nothing else happens, a timer has the
// owner review it then.
func (r *Replica) stall() *string {
	clock := r.unit.Clock()
	if r.staged() != nil {
		why := r.lacks()
		if why != nil {
			r.lookAgain(clock, stallTime)
		}
		return why
	}
	why, since := "its process on %s died and is being started again", r.unit.Meter.Read().Process.Down
	switch {
	case r.unit.Hanging() > 0:
		why, since = "a run on %s hangs", r.unit.Answered() // in another lane
	// No lane is free, so that no run of this replica can begin.
	case r.Device.Stuck():
		why, since = "runs of other models hang on %s", time.Time{}
	case since.IsZero():
		return nil
	}
	if left := stallTime - clock.Since(since); left > 0 && r.stalled.Load() == nil {
		r.lookAgain(clock, left)
		return nil
	}
	return new(fmt.Sprintf(why, r.Device.Name))
}

// lookAgain has the versions reviewed after that time.
func (r *Replica) lookAgain(clock *owntime.Clock, after time.Duration) {
	if r.again != nil {
		r.again.Stop()
	}
	r.again = clock.AfterFunc(after, r.shared.Owner.Stirred)
}

// Hangs implements execution.Owner: it counts the runs that hang on the device, and has all versions reviewed, because
// a run that holds the last lane stalls other models, too.
func (r *Replica) Hangs(by int) {
	r.Device.Hanging.Add(int32(by))
	r.shared.Owner.Stirred()
}
