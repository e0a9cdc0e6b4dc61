package serving

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/fleet"
	"github.com/weftserve/weft/runtime/modelfile"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/residency"
)

// Opener loads a version into an engine, on the named device; on another one, which engine.Opened names, if it cannot
// be there. It keeps nothing of the version's files but what it duplicates; they are nil where Config.Read gives none.
// It calls try, at most twice, if the engine has processes of its own, and returns an error of it. The error says what
// was wrong, where, and what to do. It may be called from several goroutines at once.
type Opener func(ctx context.Context, v modelrepo.Version, f *modelfile.Files, m *modelrepo.Manifest,
	device string, try engine.Try) (engine.Opened, error)

// Open opens the version on a device, proves it and warms it up. reserved is what was reserved there for it by
// fleet.Reserve; Open settles that. The replica serves once Change has it. near returns the replica with the best guess
// of costs on a device, or nil.
//
// Opening and proving wait for separate slots: opening takes disk and processors, proving waits for turns on the
// device.
func (v *Version) Open(ctx context.Context, c residency.Candidate, d *fleet.Device, reserved int64,
	near func(*fleet.Device) *Replica,
) (*Replica, error) {
	v.loading.enter(catalog.StageWaiting)
	release := v.shared.opening.hold(ctx)
	var r *Replica
	err := cannotBeOn(c, d) // it may have been lost while others were opened there
	if err == nil {
		r, err = v.open(ctx, c, d, reserved)
	}
	// Proving has slots of its own.
	release()
	v.shared.Fleet.Settle(d, reserved) // from here on the device itself shows its memory
	if err != nil {
		return nil, err
	}
	v.loading.enter(catalog.StageWaiting)
	release = v.shared.proving.hold(ctx)
	defer release()
	err = cannotBeOn(c, r.Device)
	switch {
	case err != nil:
	// The engine has put it on a device where the version is already.
	case v.On(r.Device) != nil:
		err = fmt.Errorf("%s on %s: %w", c.Path(), r.Device.Name, fleet.ErrResident)
	default:
		err = r.Device.During(ctx, func(ctx context.Context) error { return r.admit(ctx, c, near) },
			func(err error) {
				if err == nil {
					r.Finish(context.Background())
					return
				}
				v.tellUnclean(r.Device, r.closeSession())
			})
	}
	switch {
	case errors.Is(err, fleet.ErrLeftBehind): // something may run there still, so that its session cannot be closed
		v.shared.Memory.Give(r.memory)
		r.giveCopy()
		return nil, lostMeanwhile(c, r.Device, "warmed up", err)
	case err != nil:
		return nil, errors.Join(err, r.closeSession())
	case v.staged() != nil: // its steps answer; what the joined model takes, gives and is proven for is known now
		v.tellUnclean(r.Device, r.freeSession())
	}
	return r, nil
}

// cannotBeOn returns catalog.ErrDeviceLost, wrapped, if a device is lost.
func cannotBeOn(c residency.Candidate, d *fleet.Device) error {
	if cause := d.Lost(); cause != nil {
		return fmt.Errorf("%s: %w: %w", c.Path(), catalog.ErrDeviceLost, cause)
	}
	return nil
}

// lostMeanwhile returns the error for work that was left behind on a lost device; doing is what was done there.
func lostMeanwhile(c residency.Candidate, d *fleet.Device, doing string, err error) error {
	return fmt.Errorf("%s: the device %s was lost (%w) while the model was %s there: %w", c.Path(), d.Name, d.Lost(),
		doing, err)
}

// open opens the model, which is expected to need so many bytes, in its engine. It takes from the memory budget, then
// the private copy, and then opens; a failure releases what was taken. The engine may choose another device.
func (v *Version) open(ctx context.Context, c residency.Candidate, on *fleet.Device,
	bytes int64,
) (r *Replica, err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	memory, err := v.shared.Memory.Take(c.Model, c.Version.Number, bytes)
	if err != nil {
		return nil, err
	}
	defer func() {
		if r == nil {
			v.shared.Memory.Give(memory)
		}
	}()
	v.loading.enter(catalog.StageCopying)
	files, giveCopy, err := v.copied.take(ctx, v.shared.Read, c.Version, v.loading.count)
	if err != nil {
		return nil, err
	}
	defer func() {
		if r == nil {
			giveCopy()
		}
	}()
	// The digest of the files is known from here on.
	v.recall()
	v.loading.enter(catalog.StageOpening)
	var e *engaged // not to be looked at here once the engine is left behind
	err = on.During(ctx, func(ctx context.Context) (err error) {
		e, err = v.shared.engage(ctx, c, files, on)
		return err
	}, func(err error) {
		if err == nil { // nobody waits for it any more
			v.tellUnclean(on, e.loaded.Close())
		}
	})
	if errors.Is(err, fleet.ErrLeftBehind) {
		return nil, lostMeanwhile(c, on, "opened", err)
	}
	if err != nil {
		// Devices that the engine chooses by itself have no name here, and are not followed.
		if engine.KindOf(err) == engine.DeviceLost && on.Name != "" {
			v.shared.Owner.Lost(on, err, v)
		}
		return nil, err
	}
	// The engine may have chosen another device than on.
	d := v.shared.Fleet.Get(e.opened.Device)
	v.shared.Fleet.Count(d, 1)
	// As many batches may be in flight on the device.
	e.loaded.Keep(d.Lanes)
	seats := new(atomic.Int32)
	seats.Store(1)
	return v.newReplica(&Replica{
		Device: d, Opened: e.opened, first: e.first, proof: v.proofs.Load(), memory: memory, giveCopy: giveCopy,
		seats: seats,
	}, e.loaded), nil
}

// engaged is an opened model, with the result of its first row.
type engaged struct {
	opened engine.Opened
	loaded *execution.Loaded
	first  firstRow
}

// engage has the engine open the model, and try its first row if the engine has processes of its own. A panic becomes
// an error: a faulty model must not end the server.
func (s *Shared) engage(ctx context.Context, c residency.Candidate, files *modelfile.Files,
	on *fleet.Device,
) (e *engaged, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: the engine panicked: %v", c.Path(), p)
		}
	}()
	e = &engaged{}
	e.opened, err = s.Open(ctx, c.Version, files, c.Manifest, on.Name,
		func(ctx context.Context, o engine.Opened) (err error) {
			e.first, err = s.tryFirst(ctx, c, on.Name, o)
			return err
		})
	if err == nil {
		e.loaded = execution.Load(e.opened)
	}
	return e, err
}
