package shadow_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/server/shadow"
)

func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		m := shadow.New(quiet(shadow.Config{Models: held(gate, repeat())}))
		m.Offer(offerOf(3))
		var closed atomic.Bool
		for range 2 {
			go func() {
				if err := m.Close(t.Context()); err != nil {
					t.Error(err)
				}
				closed.Store(true)
			}()
		}
		synctest.Wait()
		if closed.Load() {
			t.Error("did not wait")
		}
		m.Offer(offerOf(3))
		if diff := cmp.Diff(counts{Offered: 2, Dropped: 1, Pending: 1}, countsOf(only(t, m))); diff != "" {
			t.Errorf("offered while closing (-want +got)\n%s", diff)
		}
		close(gate)
		synctest.Wait()
		if !closed.Load() {
			t.Error("waits for nothing")
		}
		m.Offer(offerOf(3))
		if diff := cmp.Diff(counts{Offered: 3, Done: 1, Dropped: 2, Agreed: 1}, countsOf(only(t, m))); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

func TestCloseGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := shadow.New(quiet(shadow.Config{Models: held(nil, nil)}))
		m.Offer(offerOf(3, 4))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := m.Close(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "2 requests") {
			t.Errorf("got %v", err)
		}
		synctest.Wait() // no virtual time passes
		for _, s := range m.Summaries("", shadow.Detail{}) {
			if diff := cmp.Diff(counts{Offered: 1, Dropped: 1}, countsOf(s)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		}
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
