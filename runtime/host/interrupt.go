package host

import (
	"context"
	"errors"
)

// opening is a step that opens a version, on its first device or a further one. It ends early, with its context, when
// somebody unloads the version: a model may take long to open, or for ever.
type opening struct {
	model  string
	number int64
	end    context.CancelCauseFunc
}

// errUnloaded ends the openings of a version that somebody unloads.
var errUnloaded = errors.New("somebody unloads the version")

// spawnOpening is spawn for an opening, with a context that also ends when somebody unloads the version. The caller
// holds Host.mu.
func (h *Host) spawnOpening(model string, number int64, do func(context.Context)) {
	ctx, end := context.WithCancelCause(h.stop)
	o := &opening{model, number, end}
	h.openings[o] = struct{}{}
	h.spawn(func() {
		defer end(nil)
		do(ctx)
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.openings, o)
	})
}

// interruptLocked ends the openings of a version. The caller holds Host.mu.
func (h *Host) interruptLocked(model string, number int64) {
	for o := range h.openings {
		if o.model == model && o.number == number {
			o.end(errUnloaded)
		}
	}
}
