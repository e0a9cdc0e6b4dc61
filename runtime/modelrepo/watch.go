package modelrepo

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/fsnotify/fsnotify"
)

// WatchConfig says how closely a repository is watched.
type WatchConfig struct {
	// Interval is the time between scans when no event of the file system calls for one. 0: the repository is looked at
	// only when Ask says so, whatever happens in it.
	Interval time.Duration
	// Ask asks for a scan at once, and sends the interval from then on. May be nil.
	Ask <-chan time.Duration
	// Settle is how long files must stay as they are before they are taken for complete. Default 1s.
	Settle time.Duration
	// SettleLater, or Interval where that is shorter, is the same for the files of versions that come or change while the
	// repository is watched, if it is longer. Lower takes a program that pauses while it writes in place for one that has
	// ended; higher delays versions.
	SettleLater time.Duration
	// Logger gets one record when directories give no events. Default slog.Default().
	Logger *slog.Logger

	open func() (*fsnotify.Watcher, error) // nil: fsnotify.NewWatcher
}

func (w *WatchConfig) later() time.Duration {
	return cmp.Or(min(w.Interval, w.SettleLater), w.SettleLater)
}

// Watch scans the repository whenever something may have changed in it and calls changed with the listing, first when
// Settle has passed and then each time that the listing differs from the one before. It returns when ctx ends, without
// an error; there is one only when w makes no sense.
//
// Only a state that has been the same for w.Settle is taken for complete, so that a listing never shows half of a
// change. Until then a version stays in the listing as it was, also when its files are being replaced or have gone; one
// that is new has Err set to [ErrCopying], wrapped. The same goes for manifests, and for models as a whole. A
// repository that cannot be read at all keeps its models, and has a fault.
//
// changed is called from one goroutine and holds up the next scan until it returns.
func (r *Repository) Watch(ctx context.Context, w WatchConfig, changed func(Listing)) error {
	if w.Interval < 0 || w.Settle < 0 {
		return fmt.Errorf("modelrepo: watch every %v, settling for %v: expected positive durations", w.Interval,
			w.Settle)
	}
	w.Settle = cmp.Or(w.Settle, time.Second)
	if w.open == nil {
		w.open = fsnotify.NewWatcher
	}
	n := newNotifier(w.open, cmp.Or(w.Logger, slog.Default()))
	defer n.close()
	var (
		settling = newSettling(w.Settle, w.later())
		last     *Listing
		due      = time.Now() // of the next scan; zero: none is
		first    time.Time    // when something is known to be complete
		timer    = time.NewTimer(0)
		waiting  []chan struct{} // calls of Looked, for what changed hears next
	)
	defer timer.Stop()
	settling.complete = r.isComplete
	if w.Interval == 0 {
		timer.Stop()
	}
	for {
		events := n.events
		if w.Interval == 0 {
			events = nil
		}
		select {
		case <-ctx.Done():
			return nil
		case w.Interval = <-w.Ask:
			settling.later = w.later()
			due = time.Now()
			timer.Reset(0)
			continue
		case <-r.looks:
			due = time.Now()
			timer.Reset(0)
			continue
		case <-events:
		case err := <-n.errors:
			n.log.Debug("repository events lost", "event", "repository_events_lost",
				"effect", "the repository is scanned instead", "cause", err)
		case <-timer.C:
			if ctx.Err() != nil {
				return nil
			}
			waiting = append(waiting, r.takeAwaited()...)
			listing := r.scan(settling)
			n.follow(settling.dirs)
			due = settling.next
			if polled := settling.now.Add(w.Interval); w.Interval > 0 && (due.IsZero() || polled.Before(due)) {
				due = polled
			}
			if first.IsZero() {
				first = settling.now.Add(w.Settle)
			}
			switch {
			case settling.now.Before(first):
				due = first // nothing is known to be complete yet
			case last == nil || !sameListing(last, &listing):
				last = &listing
				changed(listing)
				fallthrough
			default:
				for _, looked := range waiting {
					close(looked)
				}
				waiting = nil
			}
			if !due.IsZero() {
				timer.Reset(time.Until(due))
			}
			continue
		}
		// Events come in crowds while files are copied. The change that they announce cannot be complete before Settle
		// has passed.
		if soon := time.Now().Add(w.Settle / 4); soon.Before(due) {
			due = soon
			timer.Reset(time.Until(due))
		}
	}
}

// Looked has Watch look, and returns when changed has heard of all that a scan found which began after this call. The
// error is the cause of ctx: also where nobody watches.
func (r *Repository) Looked(ctx context.Context) error {
	looked := make(chan struct{})
	r.mu.Lock()
	r.awaited = append(r.awaited, looked)
	r.mu.Unlock()
	r.look()
	select {
	case <-looked:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// look has Watch look at once.
func (r *Repository) look() {
	select {
	case r.looks <- struct{}{}:
	default: // somebody asked already
	}
}

func (r *Repository) takeAwaited() []chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.awaited
	r.awaited = nil
	return all
}
