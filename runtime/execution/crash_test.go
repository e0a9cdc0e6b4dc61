package execution

import (
	"errors"
	"strings"
	"testing"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// TestACrashIsUndecided wherever it comes, if the engine has a quarantine to prove it: also in a part that ran alone
// because the batch had failed before. No part of the batch is run any more.
func TestACrashIsUndecided(t *testing.T) {
	crash := &engine.Error{Kind: engine.Crashed, Err: errors.New("SIGFPE")}
	for _, c := range []struct {
		name        string
		first, then error
		runs        int
		quarantine  bool
	}{
		{"at once", crash, nil, 1, true},
		{"of a part", errors.New("no"), crash, 2, true},
		{"of a half", &engine.Error{Kind: engine.OutOfMemory, Err: errors.New("full")}, crash, 3, true},
		{"without a quarantine", errors.New("no"), crash, 2, false},
	} {
		runs := 0
		u, _ := batched(func(*tensor.Batch) error {
			if runs++; runs == 1 {
				return c.first
			}
			return c.then
		})
		if c.quarantine {
			u.quarantine = &quarantine{}
		}
		b := &sharedsched.Batch{Rows: 2, Padded: 2}
		for _, v := range "ab" {
			b.Spans = append(b.Spans, sharedsched.Span{Payload: oneRow(u, byte(v)), Rows: 1})
		}
		Execute(b)
		if runs != c.runs {
			t.Errorf("%s: %d runs, want %d", c.name, runs, c.runs)
		}
		_, undecided := errors.AsType[*UndecidedError](b.Spans[0].Err)
		failed, _ := errors.AsType[*catalog.ModelError](b.Spans[0].Err)
		if failed == nil || undecided != c.quarantine || failed.Crashed == c.quarantine ||
			b.Spans[0].Again != c.quarantine {
			t.Errorf("%s: %v (%+v), undecided %v: %+v", c.name, b.Spans[0].Err, failed, undecided, b.Spans[0])
		}
	}
}

// TestAModelThatIsNotOpen: a batch that did not begin because of that is not divided to find a cause, and no request of
// it is taken for one.
func TestAModelThatIsNotOpen(t *testing.T) {
	runs := 0
	u, _ := batched(func(*tensor.Batch) error {
		runs++
		return &engine.Error{Kind: engine.NotOpen, Err: errors.New("no memory for weights")}
	})
	u.quarantine = &quarantine{}
	b := &sharedsched.Batch{Rows: 4, Padded: 4}
	for _, v := range "abcd" {
		b.Spans = append(b.Spans, sharedsched.Span{Payload: oneRow(u, byte(v)), Rows: 1})
	}
	Execute(b)
	if runs != 1 {
		t.Errorf("%d runs, want 1", runs)
	}
	for i := range b.Spans {
		err := b.Spans[i].Err
		if _, is := errors.AsType[*catalog.ModelError](err); is || !errors.Is(err, catalog.ErrNotOpen) ||
			!strings.Contains(err.Error(), "no memory for weights") {
			t.Errorf("request %d: %v", i, err)
		}
	}
}
