// Package lifecycle starts the parts of a program in order, waits for a reason to stop, stops them in the opposite
// order, and tells the service manager.
//
// # A stop
//
//   - The first signal, or a part that ends by itself, begins an orderly stop. The context of the start ends, so that a
//     program that is still starting stops, too.
//   - Parts are stopped from the last to the first: a part may use everything that was started before it.
//   - A second signal, or the drain timeout, cuts the stop short. Each part that has not ended then gets a few seconds,
//     and is left behind if it does not end in them.
package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Config holds the settings of Run.
type Config struct {
	// Signals ask to stop: the first begins an orderly stop, a further one cuts it short unless it is the echo of the
	// first. The [Signals] of the process, or a test's own.
	Signals <-chan os.Signal
	// DrainTimeout says, once it has begun, how long the orderly stop may take before it is cut short. Zero: it is cut
	// short at once. Too low breaks off accepted work; too high lets one hanging part delay a restart.
	DrainTimeout func() time.Duration
	// Logger gets why and how the program stops. Nil: slog.Default().
	Logger *slog.Logger
}

// echo is how long after the first signal the same one is ignored: some supervisors signal a process and then its
// group.
const echo = 500 * time.Millisecond

// ErrCutShort marks a stop that did not wait for everything that was begun.
var ErrCutShort = errors.New("the stop was cut short")

// Interrupted is the cause with which the context of Run's start function ends when a signal asks to stop.
type Interrupted struct{ Signal os.Signal }

func (i *Interrupted) Error() string { return "stopped by " + i.Signal.String() }

// Signals returns the process's SIGINT and SIGTERM from now on. Call it before anything that may install handlers of
// its own, as GPU libraries do while they load.
func Signals() <-chan os.Signal {
	c := make(chan os.Signal, 2) // two signals count; further ones may be lost
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	return c
}

// Hangups returns the process's SIGHUP from now on, which does not end it any more: one that comes while another waits
// to be taken from the channel says nothing new. Call it as early as Signals.
func Hangups() <-chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c
}

// Run calls start, which starts the program's parts one after the other with Group.Start, and may block until the
// program is ready. Then it waits for a signal or for a part that ends by itself. Either ends start's context,
// and stops the parts, the last one first. It returns when all parts have ended, or were given up.
//
// The error is nil after an orderly stop that a signal asked for. Otherwise it joins what start returned, the failure
// of the part that ended by itself, ErrCutShort, and the errors of stopping.
func Run(cfg Config, start func(ctx context.Context, g *Group) error) error {
	log := cmp.Or(cfg.Logger, slog.Default())
	ctx, stop := context.WithCancelCause(context.Background())
	hurry, cut := context.WithCancelCause(context.Background())
	ended := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		var first os.Signal
		select {
		case first = <-cfg.Signals:
			log.Info("stopping", "event", "stopping", "signal", first.String(), "drain_timeout", cfg.DrainTimeout())
			stop(&Interrupted{first})
		case <-ctx.Done():
		}
		begin := time.Now()
		for {
			select {
			case s := <-cfg.Signals:
				if s == first && time.Since(begin) < echo {
					continue
				}
				cut(fmt.Errorf("%w by a further signal (%v)", ErrCutShort, s))
			case <-ended:
			}
			return
		}
	}()

	g := &Group{fail: stop}
	err := start(ctx, g)
	if err == nil {
		<-ctx.Done()
	}
	stop(err)
	cause := context.Cause(ctx)
	_, asked := errors.AsType[*Interrupted](cause)
	switch {
	// A start that the signal ended has no error of its own.
	case asked && errors.Is(err, cause):
		err = nil
	// A part ended by itself, which start did not report.
	case !asked && !errors.Is(err, cause):
		log.Error("stopping", "event", "stopping", "cause", cause)
		err = errors.Join(err, cause)
	}

	drain := cfg.DrainTimeout()
	within, done := context.WithTimeoutCause(hurry, drain,
		fmt.Errorf("%w after the drain timeout of %v", ErrCutShort, drain))
	err = errors.Join(err, g.stop(within, log))
	done()
	close(ended)
	<-watched
	cut(nil)
	return err
}
