package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// Part is something that runs from its start to its stop.
type Part struct {
	// Name is for logs and errors, such as "gRPC server".
	Name string
	// Run does the part's work and returns once Stop was called. If it returns earlier, the program stops. Nil: the
	// part's work is done elsewhere.
	Run func() error
	// Stop makes the part finish the work that it has begun and returns when the part has ended. The deadline of ctx is
	// the end of the drain timeout. When ctx ends, it must give up unfinished work and return soon; an ErrLeftBehind says
	// that Run does not return. Nil: nothing needs to be done.
	Stop func(ctx context.Context) error
}

// ErrLeftBehind marks the end of a stop that leaves something behind which cannot be ended but with the program.
var ErrLeftBehind = errors.New("it is left behind")

// Group is the parts that were started. Only the start function of Run uses it, from one goroutine.
type Group struct {
	// In the order in which they were started.
	parts []*running
	fail  context.CancelCauseFunc
}

// running is a part that was started.
type running struct {
	Part
	ended chan struct{}
	err   error // of Run; valid once ended is closed
}

// Start starts a part. The parts that it depends on must have been started before it, and are stopped after it.
func (g *Group) Start(p Part) {
	r := &running{Part: p, ended: make(chan struct{})}
	g.parts = append(g.parts, r)
	if p.Run == nil {
		close(r.ended)
		return
	}
	go func() {
		r.err = p.Run()
		close(r.ended)
		// Has no effect on a program that is stopping already.
		g.fail(fmt.Errorf("%s ended by itself: %w", p.Name, errOr(r.err)))
	}()
}

// errNoReason is the error of a part that returned nil before it was stopped.
var errNoReason = errors.New("it gave no reason")

// errOr returns an error in any case: a part that ends without one has failed, too.
func errOr(err error) error {
	if err == nil {
		return errNoReason
	}
	return err
}

// patience is how long a part may take to return after its stop was cut short. Work that still runs then, such as a
// call that hangs in a library, can only be ended with the program.
const patience = 5 * time.Second

// stop stops the parts, the last one first, and joins their errors. When ctx ends, each further part gets at most
// patience.
func (g *Group) stop(ctx context.Context, log *slog.Logger) error {
	var errs []error
	wasCut := false
	for _, p := range slices.Backward(g.parts) {
		begin := time.Now()
		err := p.stop(ctx)
		if ctx.Err() != nil && !wasCut {
			wasCut = true
			errs = append(errs, context.Cause(ctx))
		}
		// A part that says that it was cut short says nothing new.
		if err != nil && !errors.Is(err, context.Cause(ctx)) {
			errs = append(errs, fmt.Errorf("stop %s: %w", p.Name, err))
		}
		log.Debug("part stopped", "event", "part_stopped", "part", p.Name, "took", time.Since(begin), "cause", err)
	}
	return errors.Join(errs...)
}

// hasEnded reports whether Run has returned, or there is none.
func (r *running) hasEnded() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// stop stops the part and waits for its end: as long as ctx goes on, and then for patience. The goroutine stays behind
// if the part does.
func (r *running) stop(ctx context.Context) error {
	done := make(chan error, 1)
	go func() {
		var err error
		byItself := r.hasEnded() // and has been reported
		if r.Stop != nil {
			err = r.Stop(ctx)
		}
		// Run does not return, so that nobody may wait for it.
		if errors.Is(err, ErrLeftBehind) {
			done <- err
			return
		}
		<-r.ended
		if !byItself {
			err = errors.Join(err, r.err)
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("it did not end within %v of being cut short and is left behind", patience)
	}
}
