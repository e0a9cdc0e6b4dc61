package host

import (
	"sync"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/serving"
)

// stillLoading is how often the log says that a version is still being loaded. lookAfter is how often a load is looked
// at, for that and for a proof that turns out to be slow.
const stillLoading, lookAfter = 10 * time.Second, time.Second

// loadings are the loads under way, at most one of each version. Its lock is a leaf that no load holds while it works,
// so that progress can be read at any time.
type loadings struct {
	mu  sync.Mutex
	all map[versionName]*serving.Version // guarded by mu
}

// versionName names a version, and so all loads of it.
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

// of returns how far the load of a version is. The zero value says that the load waits for its turn.
func (l *loadings) of(model string, number int64) catalog.LoadProgress {
	l.mu.Lock()
	v := l.all[versionName{model, number}]
	l.mu.Unlock()
	if v == nil {
		return catalog.LoadProgress{}
	}
	return v.Loading()
}

// slow reports whether all loads of a model are so slow that the start of the server does not wait for them; false if
// there is no load.
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

// showLoading shows how far a load is to callers, and every stillLoading in the log, until done is called, which waits
// for its goroutine. When the load turns out to be slow, callers of Started are woken.
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

// tellLoading logs how far a load is. A load that waits for its turn is left out: there may be many, and each waits for
// one that is logged.
func (h *Host) tellLoading(v *serving.Version) {
	l := v.Loading()
	if l.Stage == catalog.StageWaiting {
		return
	}
	h.log.Info("version still loading", "event", "still_loading", "model", v.Model, "version", v.Number,
		"stage", l.Stage.String(), "done", l.Done, "of", l.Of, "took", time.Since(l.Since).Round(time.Millisecond))
}
