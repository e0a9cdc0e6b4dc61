package host

import (
	"context"
	"fmt"
	"sync"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// Load makes every selected version of the listing resident and returns when each is ready or has failed. A version that cannot
// be loaded is published with its cause and logged; the others serve. It tries each version once, also those that failed before,
// and unloads nothing but versions that others take the place of. The error is the cause of ctx, or that the host is closed.
func (h *Host) Load(ctx context.Context, l modelrepo.Listing) error {
	return h.follow(ctx, l, true)
}

// Reconcile brings what is resident in line with a listing, and returns when it is: every selected version is ready, or has
// failed and is tried again by itself, after 1 s, 2 s, ... 5 min, and at once when its files or its manifest change.
//
//   - Versions that are selected and missing are loaded, and those whose files or settings changed so that they must be loaded
//     again are replaced under their number: the new one is loaded beside the old, takes its place when it is ready, and the old
//     one is closed when it has answered what it accepted. Until then, and if the new one fails, the old one answers; its Cause
//     tells of the failure.
//   - Versions that are not selected any more are unloaded when all selected ones are ready, once neither the traffic nor a label
//     names them. What is gone from the repository with its whole model is unloaded in any case, unless a repository could not be
//     read or is empty: then nothing is taken to be gone.
//   - Where versions.transition is resource, what is to go is unloaded first, and nothing answers in between.
//   - Other changes of a manifest apply from the next batch on.
//   - Labels and traffic that the manifest changed are published as soon as the versions that they name are ready.
//
// One Reconcile runs at a time; requests never wait for it. The error is the cause of ctx, or that the host is closed.
func (h *Host) Reconcile(ctx context.Context, l modelrepo.Listing) error {
	return h.follow(ctx, l, false)
}

// follow brings the models in line with a listing. once: with a single attempt to load what is missing, and removing no model.
func (h *Host) follow(ctx context.Context, l modelrepo.Listing, once bool) error {
	ctx, done, err := h.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	h.report(l)
	gone := !once
	if gone && cannotTell(l) {
		gone = false
		h.log.Warn("no model is taken to be removed while a repository is empty or cannot be read", "cause", l.Err())
	}
	names := h.adopt(l, once, gone)
	var all sync.WaitGroup
	for _, name := range names {
		all.Go(func() {
			m, err := h.take(ctx, name)
			if err != nil {
				return // ctx ended, or its last version was unloaded meanwhile
			}
			defer m.release()
			h.settle(ctx, name, m, once)
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// begin returns a context that also ends when the host is closed, which waits for done. The error is that it is closed.
func (h *Host) begin(ctx context.Context) (_ context.Context, done func(), _ error) {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil, nil, errClosing
	}
	h.loads.Add(1)
	h.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(h.stop, func() { cancel(context.Cause(h.stop)) })
	return ctx, func() {
		unhook()
		cancel(nil)
		h.loads.Done()
	}, nil
}

// take waits for the caller's turn with a model; release ends it. The error is catalog.ErrUnknown, wrapped, or the cause of ctx.
func (h *Host) take(ctx context.Context, name string) (*model, error) {
	for {
		h.mu.Lock()
		m := h.models[name]
		h.mu.Unlock()
		if m == nil {
			return nil, fmt.Errorf("model %q: %w", name, catalog.ErrUnknown)
		}
		select {
		case m.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		h.mu.Lock()
		still := h.models[name] == m
		h.mu.Unlock()
		if still {
			return m, nil
		}
		m.release() // it was forgotten, and perhaps there is another of its name
	}
}

func (m *model) release() { <-m.turn }
