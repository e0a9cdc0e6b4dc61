package shadow_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/shadow"
	"github.com/weftserve/weft/sharedsched"
)

// bookkeeper checks the books at moments that no scheduling of goroutines can hide: whenever it hears of an end.
type bookkeeper struct {
	t      *testing.T
	mirror *shadow.Mirror
	told   atomic.Int64
}

func (b *bookkeeper) ShadowDone(shadow.Event) {
	told := b.told.Add(1)
	ended := int64(0)
	for _, s := range b.mirror.Summaries("", shadow.Detail{}) {
		addsUp(b.t, s)
		ended += s.Done + s.Dropped + s.Failed + s.Skipped
	}
	if ended < told {
		b.t.Errorf("told of %d ends, but only %d are counted", told, ended)
	}
}

func addsUp(t *testing.T, s shadow.Summary) {
	t.Helper()
	if s.Offered != s.Done+s.Dropped+s.Failed+s.Pending || s.Pending < 0 || s.Pending > 4 || s.Agreed > s.Done {
		t.Errorf("does not add up: %+v", countsOf(s))
	}
	for _, o := range s.Outputs {
		if o.Agreed != s.Done || o.Rows != s.Done {
			t.Errorf("%d done, but of output %q %d", s.Done, o.Name, o.Agreed)
		}
	}
}

// TestCountsAddUp reads while many offer: at no moment is a request counted twice or not at all.
func TestCountsAddUp(t *testing.T) {
	var calls atomic.Int64
	done := repeat()
	books := &bookkeeper{t: t}
	m := shadow.New(quiet(shadow.Config{
		MaxPending: 4, Observer: books,
		Models: modelsFunc(func(ctx context.Context, call *catalog.Call) error {
			switch calls.Add(1) % 4 {
			case 0:
				return errModel
			case 1:
				return sharedsched.ErrExpired
			}
			return done(ctx, call)
		}),
	}))
	books.mirror = m
	const writers, each = 4, 500
	var offering, reading sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		reading.Go(func() {
			for {
				for _, s := range m.Summaries("", shadow.Detail{}) {
					addsUp(t, s)
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for range writers {
		offering.Go(func() {
			offer := offerOf(2, 3)
			offer.Named = []catalog.Shadow{{Version: 1}, {Version: 2}, {Version: 3}, {Version: 4}} // 1 answers
			for range each {
				m.Offer(offer)
			}
		})
	}
	offering.Wait()
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	close(stop)
	reading.Wait()
	ran := int64(0)
	for _, s := range m.Summaries("policy", shadow.Detail{}) {
		skipped := s.ShadowVersion == 4
		if s.Offered+s.Skipped != writers*each || (s.Skipped > 0) != skipped || s.Pending != 0 {
			t.Errorf("in the end %+v", countsOf(s))
		}
		ran += s.Done + s.Failed
	}
	if told := books.told.Load(); told != 3*writers*each {
		t.Errorf("told of %d ends, want %d", told, 3*writers*each)
	}
	if ran == 0 || ran > calls.Load() {
		t.Errorf("%d ran, by %d calls", ran, calls.Load())
	}
}
