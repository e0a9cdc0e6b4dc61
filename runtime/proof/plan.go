package proof

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
)

// plan is how many runs a trial has made, and is to make as far as that can be told. It decides nothing.
type plan struct {
	told func(done, of int64) // nil: nobody asks
	done int64
	of   int64
	rest int64 // runs of the steps after the one that was planned last
}

// next plans the runs of the step that begins, in the place of what was planned of the one before.
func (p *plan) next(runs int) {
	p.of = p.done + int64(runs) + p.rest
	p.tell()
}

// ran notes a run.
func (p *plan) ran() {
	p.done++
	p.of = max(p.of, p.done)
	p.tell()
}

func (p *plan) tell() {
	if p.told != nil {
		p.told(p.done, p.of)
	}
}

// growRuns is how many runs grow makes of sizes, if it makes all.
func (t *trial) growRuns(base *baseline, sizes []int) (runs int) {
	smaller := 0
	for _, size := range sizes {
		full, padded := t.runsOf(base, smaller, size)
		runs, smaller = runs+full+padded, size
	}
	return runs
}

// The batches that are run with each kind of rows, with each value of an input without rows, and with each size of the
// open dimensions.
const (
	kindBatches      = 5
	parameterBatches = 3
	extentBatches    = 2
)

// kindRuns is how many runs varyRows makes at most, but for rows that are run twice.
func (t *trial) kindRuns() (runs int) {
	for n := range kinds {
		if k := &kinds[n]; k.changesAny(t.decision.Signature) {
			runs += k.most() + kindBatches
		}
	}
	return runs
}

// extentRuns is how many runs varyExtents makes at most.
func (t *trial) extentRuns(base *baseline) (runs int) {
	for _, extent := range t.extents() {
		if t.varies(base, extent) {
			runs += extentRows + extentBatches
		}
	}
	return runs
}

// valueRuns is how many runs varyValues makes at most, but for rows that the model refuses.
func (t *trial) valueRuns(base *baseline, most int) int {
	size := spreadSize(base, most)
	return spreadsRuns(t.spreads(base, size, func(int) int64 { return math.MaxInt64 }), size)
}

// spreadsRuns is how many runs rows take in batches of a size.
func spreadsRuns(all []spread, size int) (runs int) {
	for i := range all {
		runs += 4 * (len(all[i].rows) / (2 * size))
		if rest := len(all[i].rows) % (2 * size); rest > 0 {
			runs += (rest+size-1)/size + min(2, rest-1)
		}
	}
	return runs
}

// First runs made-up rows like the ones that Prove begins with, one after the other, until the model takes one. It
// returns the time that this took, by row; 0: the model fails on all. The error is the Runner's, and a
// *catalog.ModelError only if the row ended the engine's process, or the use of its device.
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
