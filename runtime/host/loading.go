package host

import (
	"sync"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/serving"
)

// stillLoading is how often the log says that a version is still being loaded, and lookAfter how often it is looked at.
const stillLoading, lookAfter = 10 * time.Second, time.Second

// loadings are the loads that are under way, at most one of each version. Reading them waits for nothing that a load
// waits for.
type loadings struct {
	mu  sync.Mutex
	all map[versionName]*serving.Version // guarded by mu
}

type versionName struct {
	model  string
	number int64
}

// add adds a load until done is called.
func (l *loadings) add(v *serving.Version) (done func()) {
	name := versionName{v.Model, v.Number}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[versionName]*serving.Version{}
	}
	l.all[name] = v
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.all[name] == v { // else the next one has begun
			delete(l.all, name)
		}
	}
}

// of returns how far the load of a version is; one that has not begun waits.
func (l *loadings) of(model string, number int64) catalog.LoadProgress {
	l.mu.Lock()
	v := l.all[versionName{model, number}]
	l.mu.Unlock()
	if v == nil {
		return catalog.LoadProgress{}
	}
	return v.Loading()
}

// slow reports whether nothing of a model is being loaded but versions that nobody else is to wait for.
func (l *loadings) slow(model string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	slow := false
	for name, v := range l.all {
		if name.model == model {
			if slow = v.Loading().Slow; !slow {
				return false
			}
		}
	}
	return slow
}

// showLoading shows how far a load is to callers, and again and again in the log, until done is called. Who waits for
// the server to start is told when the load turns out to be slow.
func (h *Host) showLoading(v *serving.Version) (done func()) {
	remove := h.loadings.add(v)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		again := time.NewTicker(lookAfter)
		defer again.Stop()
		slow := false
		for n := 1; ; n++ {
			select {
			case <-stop:
				return
			case <-again.C:
			}
			if !slow && v.Loading().Slow {
				slow = true
				h.republish(v.Model)
			}
			if n%int(stillLoading/lookAfter) == 0 {
				h.tellLoading(v)
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
		remove()
	}
}

// tellLoading logs how far a load is. One that waits for its turn is passed over: there may be many, and each of them
// waits for one that is told.
func (h *Host) tellLoading(v *serving.Version) {
	l := v.Loading()
	if l.Stage == catalog.StageWaiting {
		return
	}
	h.log.Info("version still loading", "event", "still_loading", "model", v.Model, "version", v.Number,
		"stage", l.Stage.String(), "done", l.Done, "of", l.Of, "took", time.Since(l.Since).Round(time.Millisecond))
}
