package serving

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/residency"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// reopening is a scheduler of a model that is not open: a second after each task was asked for, it says so, and the
// model is expected two seconds later. Its list is the targets of the tasks.
type reopening struct {
	Scheduler
	targets []time.Duration
}

func (*reopening) Abandoned() <-chan struct{} { return nil }

func (s *reopening) Do(_ context.Context, _ sharedsched.VersionID, t *sharedsched.Task) (sharedsched.Outcome, error) {
	s.targets = append(s.targets, t.Target)
	time.Sleep(time.Second)
	done := make(chan struct{})
	time.AfterFunc(2*time.Second, func() { close(done) })
	return sharedsched.Outcome{}, &engine.Error{Kind: engine.Terminated, Err: &engine.ReopeningError{Done: done}}
}

// TestATaskThatIsHandedOverAgain keeps its limit and its target: the time until then counts.
func TestATaskThatIsHandedOverAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, sched := newKeeper(), &reopening{}
		k.Attach(sched)
		r := (&closing{}).replica(t, k, nil)
		x := tensor.Tensor{DType: tensor.Uint8, Shape: tensor.Shape{1}, Data: []byte{1}}
		j := &execution.Job{Unit: r.unit, Rows: 1, Inputs: []tensor.Tensor{x}}
		j.Task = sharedsched.Task{Target: 5 * time.Second, Limit: time.Now().Add(8 * time.Second)}
		_, err := r.submit(t.Context(), j)
		if want := []time.Duration{5 * time.Second, 2 * time.Second, 1}; !slices.Equal(sched.targets, want) ||
			!errors.Is(err, sharedsched.ErrExpired) {
			t.Errorf("targets %v, want %v; the task ended with %v", sched.targets, want, err)
		}
	})
}

// TestWhoIsCharged: the caller where the model's fairness is by identity and a caller is known; but for shadows, which
// the operator asked for, the version.
func TestWhoIsCharged(t *testing.T) {
	known := &catalog.Caller{Name: "tenant", Weight: 3}
	for _, c := range []struct {
		name     string
		fairness modelrepo.Fairness
		call     catalog.Call
		want     string
	}{
		{"by identity", modelrepo.FairIdentity, catalog.Call{Caller: known}, "tenant"},
		{"nobody known", modelrepo.FairIdentity, catalog.Call{}, ""},
		{"a shadow", modelrepo.FairIdentity, catalog.Call{Caller: known, Shadow: true}, ""},
		{"by version", modelrepo.FairVersion, catalog.Call{Caller: known}, ""},
		{"by model", modelrepo.FairModel, catalog.Call{Caller: known}, ""},
	} {
		r := (&closing{}).replica(t, newKeeper(), nil)
		r.flow = r.flowFor(residency.Candidate{Manifest: &modelrepo.Manifest{Fairness: c.fairness}})
		c.call.Version = &catalog.Version{}
		task := r.taskOf(&c.call, time.Now())
		if task.Identity != c.want || (task.Weight == 3) != (c.want != "") {
			t.Errorf("%s: %q of weight %v is charged, want %q", c.name, task.Identity, task.Weight, c.want)
		}
	}
}
