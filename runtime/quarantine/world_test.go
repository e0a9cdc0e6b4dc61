package quarantine

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/tensor"
)

// request is one of 20 inputs to one of three versions.
type request struct{ version, inputs int }

func (r request) origin() Origin           { return Origin{Version: int64(r.version)} }
func (r request) tensors() []tensor.Tensor { return []tensor.Tensor{{Data: []byte{byte(r.inputs)}}} }
func (r request) poison() bool             { return r.inputs%5 == 0 }

// world is callers who send requests again and again, and obey, to an engine whose process poison ends.
type world struct {
	*testing.T
	Requests
	rng     *rand.Rand
	retries map[request]*Retry
	waiting []*Retry // by caller; some have ended
	stopped map[*Retry]bool
	ended   map[request]int // processes
}

func (w *world) request() request { return request{w.rng.IntN(3), w.rng.IntN(20)} }

// obey has a caller wait for a retry, or be refused. It reports whether there is anything to obey.
func (w *world) obey(q request, k Known) bool {
	switch {
	case k.Poison != nil && !q.poison():
		w.Fatalf("an innocent request is refused: %v", q)
	case k.Retry != nil && k.Retry != w.retries[q]:
		w.Fatalf("a caller of %v waits for a retry that does not go on", q)
	case k.Retry != nil:
		w.waiting = append(w.waiting, k.Retry)
	}
	return k.Poison != nil || k.Retry != nil
}

func (w *world) retry(q request) {
	var own *Retry
	k, begins := w.Begin(q.origin(), q.tensors(), func(err error) { w.stopped[own] = err != nil },
		func() bool { return w.rng.IntN(4) == 0 })
	if begins {
		if w.retries[q] != nil {
			w.Fatalf("%v is retried twice at once", q)
		}
		own = k.Retry
		w.retries[q] = own
	}
	w.obey(q, k)
}

// batch runs some requests together, and retries each of them if that ends the process.
func (w *world) batch() {
	var together []request
	crashes := map[request]bool{}
	for range 1 + w.rng.IntN(4) {
		q := w.request()
		if k := w.Find(q.origin(), q.tensors()); k.Suspect != nil {
			w.retry(q)
		} else if !w.obey(q, k) {
			if together = append(together, q); q.poison() {
				crashes[q] = true
			}
		}
	}
	for q := range crashes {
		if w.ended[q]++; w.ended[q] > 1 {
			w.Fatalf("%v ended %d processes in which others ran", q, w.ended[q])
		}
	}
	for _, q := range together {
		if len(crashes) > 0 {
			w.retry(q)
		}
	}
}

// some returns one of the requests that are being retried.
func (w *world) some() request {
	for {
		if q := w.request(); w.retries[q] != nil {
			return q
		}
	}
}

// end ends a retry: without a verdict if it was stopped, and now and then.
func (w *world) end(q request) {
	t, outcome := w.retries[q], Outcome(w.rng.IntN(2))
	if w.stopped[t] || w.rng.IntN(8) == 0 {
		outcome = Undecided
	} else if q.poison() {
		outcome = Crashed
		w.ended[q]++
	}
	delete(w.retries, q)
	t.End(outcome, errors.New(outcome.String()), func() {})
}

// leave has a caller leave, of a retry that goes on or has ended.
func (w *world) leave() {
	if n := len(w.waiting); n > 0 {
		i := w.rng.IntN(n)
		t := w.waiting[i]
		w.waiting = slices.Delete(w.waiting, i, i+1)
		t.Leave()
	}
}

// TestInvariants: whatever happens, no innocent request is refused, none is retried twice at once, and poison ends one
// process in which others run and one in quarantine. Retries that nobody waits for are counted.
func TestInvariants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(300) {
			w := &world{
				T: t, rng: rand.New(rand.NewPCG(seed, 1)), retries: map[request]*Retry{}, stopped: map[*Retry]bool{},
				ended: map[request]int{},
			}
			for range 200 {
				time.Sleep(time.Duration(w.rng.IntN(3)) * time.Second) // all of it is less than suspectTime
				switch kind := w.rng.IntN(4); {
				case kind < 2:
					w.batch()
				case kind == 2:
					w.leave()
				case len(w.retries) > 0:
					w.end(w.some())
				}
				unwaited := 0
				for _, t := range w.retries {
					if !slices.Contains(w.waiting, t) {
						unwaited++
					}
				}
				if w.unwaited != unwaited {
					t.Fatalf("seed %d: nobody waits for %d retries, counted %d", seed, unwaited, w.unwaited)
				}
			}
			for len(w.retries) > 0 {
				w.end(w.some())
			}
			proven := [3]int{}
			for q, n := range w.ended {
				if n > 1 {
					proven[q.version]++
				}
			}
			time.Sleep(suspectTime)
			for version, n := range proven {
				q := request{version, 1}
				if w.Poison(q.origin()) != n || w.Find(q.origin(), q.tensors()) != (Known{}) {
					t.Errorf("seed %d: version %d: %d are remembered of %d", seed, version, w.Poison(q.origin()), n)
				}
			}
			if w.Requests.some.Load() != (proven != [3]int{}) {
				t.Errorf("seed %d: requests are looked up: %v", seed, w.Requests.some.Load())
			}
		}
	})
}
