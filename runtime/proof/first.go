package proof

import (
	"context"
	"errors"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
)

// First runs made-up rows like those that Prove begins with, one after the other, until the model takes one. It returns
// the time that this took, by row; 0: the model fails on all. The error is the Runner's, and a *catalog.ModelError only
// if the row ended the engine's process, or the use of its device.
func First(ctx context.Context, r Runner, s *Subject, d *Decision) (took time.Duration, err error) {
	t := newLoadTrial(r, s, d)
	for _, p := range palettes {
		for _, extent := range t.extents() {
			if t.spent > trialTime {
				return 0, nil
			}
			_, cost, err := t.single(ctx, samples(d.Signature, 1, extent, p, t.rng)[0], true)
			failed, is := errors.AsType[*catalog.ModelError](err)
			switch {
			case err == nil:
				return cost / time.Duration(t.unit), nil
			case !is || crashes(failed):
				return 0, err
			}
		}
	}
	return 0, nil
}

// crashes reports whether a run left an engine's process in which no other run can be made.
func crashes(err error) bool {
	kind := engine.KindOf(err)
	return kind == engine.Crashed || kind == engine.DeviceLost
}
