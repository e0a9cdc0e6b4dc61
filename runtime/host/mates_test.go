package host_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/sharedsched"
)

// TestMates: a request that the model failed on learns how many others of its batch were answered, which distinguishes
// bad input from a bad model.
func TestMates(t *testing.T) {
	b := newBench(t, perRow(1, doubleUnlessNaN), patient)
	for _, test := range []struct {
		n        int
		poisoned []int
		want     int
	}{{8, []int{3}, 7}, {8, []int{4, 5}, 6}, {4, []int{0, 1, 2, 3}, 0}, {1, []int{0}, 0}} {
		errs, _ := b.together(0, oneRowCalls(test.n, test.poisoned...))
		for _, i := range test.poisoned {
			if e, is := errors.AsType[*catalog.ModelError](errs[i]); !is || e.Mates != test.want {
				t.Errorf("%d of %d poisoned: %v with %+v, want %d mates", len(test.poisoned), test.n, errs[i], e,
					test.want)
			}
		}
	}
}

// listening is a scheduler that keeps the priority of the latest task.
type listening struct {
	host.Scheduler
	heard sharedsched.Priority
}

func (l *listening) Do(ctx context.Context, v sharedsched.VersionID, t *sharedsched.Task) (sharedsched.Outcome, error) {
	l.heard = t.Priority
	return l.Scheduler.Do(ctx, v, t)
}

// TestShadowsAreBackground whatever their priority.
func TestShadowsAreBackground(t *testing.T) {
	b := &bench{
		world: &world{t: t, engines: map[string]any{}, logs: &weftest.Log{}},
		sched: &manual{size: 1, arrived: make(chan struct{}, 4)},
	}
	l := &listening{Scheduler: b.sched}
	b.Host = host.New(host.Config{Open: b.open, Logger: slog.New(b.logs)})
	b.sched.host = b.Host
	b.Attach(l)
	b.add("m", 1, times(2), nil)
	v := b.load("m")
	for shadow, want := range map[bool]sharedsched.Priority{
		true:  sharedsched.Sheddable,
		false: sharedsched.CriticalPlus,
	} {
		call := ask(v, 1, 3)
		call.Shadow, call.Priority = shadow, sharedsched.CriticalPlus
		if err := b.Predict(t.Context(), call); err != nil || l.heard != want {
			t.Errorf("shadow %v: priority %v, want %v; %v", shadow, l.heard, want, err)
		}
	}
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
