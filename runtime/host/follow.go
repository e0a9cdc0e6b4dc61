package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/decisions"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/residency"
)

// Follow makes the resident versions follow a listing, and returns at once: the listing's content is published and
// noted, and the loading and unloading that it asks for begins. Each model goes its own way: one that is busy with the
// wishes of an earlier listing takes up the newest one when its present step ends.
//
//   - Versions that are selected and missing are loaded, and those whose files or settings changed so that they must be
//     loaded again are replaced under their number: the new one is loaded while the old one serves, takes its place
//     when it is ready, and the old one is closed when it has answered its accepted requests. Until then, and if the
//     new one fails, the old one answers; its Cause reports the failure.
//   - A version that cannot be loaded is published with its cause and logged, and is tried again by itself, after 1 s,
//     2 s, ... 5 min, and at once when its files or its manifest change.
//   - Versions that are not selected any more are unloaded when all selected ones are ready, or the unready ones have
//     failed and a newer one is ready, once neither the traffic nor a label names them; one whose directory is gone, as
//     soon as another one that is selected answers. A version that is gone from the repository with its whole model is
//     unloaded in any case, unless a repository could not be read or is empty: then nothing is taken to be gone.
//   - Versions that a pipeline asks as steps are loaded, and stay, as long as it is to be resident, or is.
//   - Where versions.transition is resource, the versions that are to go are unloaded first, and nothing answers in
//     between.
//   - Other changes of a manifest apply from the next batch on.
//   - Labels and traffic that the manifest changed are published as soon as the versions that they name are ready.
//
// Listings are to come in the order in which they were made. A closed host follows none.
func (h *Host) Follow(l modelrepo.Listing) {
	gone := !cannotTell(l)
	if !gone {
		h.log.Warn("repository empty or unreadable", "event", "removals_ignored", "cause", l.Err(),
			"kept", "models that are not listed")
	}
	h.deciding.Lock()
	defer h.deciding.Unlock()
	e := residency.Listed{Gone: gone}
	for i := range l.Models {
		e.Models = append(e.Models, h.listed(&l.Models[i]))
	}
	h.step(e)
}

// listed adds to a model that was found what residency cannot look up by itself: the decisions that were kept about a
// model that is new to it, and which directories of versions that are not listed any more are still there. The caller
// holds Host.deciding, and not Host.mu: this reads the disk.
func (h *Host) listed(found *modelrepo.Model) residency.ListedModel {
	l := residency.ListedModel{Model: found}
	h.mu.Lock()
	m := h.residency.Model(found.Name)
	var unlisted []modelrepo.Version
	if m != nil {
		unlisted = m.Unlisted(found)
	}
	h.mu.Unlock()
	if m == nil {
		l.Recalled = h.recall(found.Name)
	}
	for _, v := range unlisted {
		if _, err := os.Stat(v.Dir); err == nil {
			if l.Present == nil {
				l.Present = map[string]bool{}
			}
			l.Present[v.Dir] = true
		}
	}
	return l
}

// recall returns the decisions that were kept about a model; nil: none.
func (h *Host) recall(name string) *decisions.Model {
	if decided, kept := h.cfg.Keeper.Recall(name); kept {
		return &decided
	}
	return nil
}

// cannotTell reports whether a listing misses models for another reason than that they were removed: a directory that
// is not mounted looks like an empty one.
func cannotTell(l modelrepo.Listing) bool {
	return slices.ContainsFunc(l.Faults, func(err error) bool { return errors.Is(err, modelrepo.ErrNoRepository) })
}

// Settled returns when each model has reached the state that was wanted when Settled was called: every version that is
// to be resident is ready or has failed, and every version that is to go is gone. A version that another one replaced
// may still be answering its accepted requests. The error is the cause of ctx, after which all goes on as before, or
// that the host is closed.
func (h *Host) Settled(ctx context.Context) error { return h.settled(ctx, false) }

// Started is Settled but for versions whose proof is slow: the others are not to wait for them.
func (h *Host) Started(ctx context.Context) error { return h.settled(ctx, true) }

// settled registers before it waits, so that a state that is reached in between is not missed. All callers that wait
// for the same share a channel.
func (h *Host) settled(ctx context.Context, butSlow bool) error {
	var all []<-chan struct{}
	h.mu.Lock()
	for name := range maps.Keys(h.residency.Models()) {
		until := settling{name, butSlow}
		if h.settling[until] == nil {
			h.settling[until] = make(chan struct{})
		}
		all = append(all, h.settling[until])
	}
	h.tellSettled()
	h.mu.Unlock()
	for _, settled := range all {
		select {
		case <-settled:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-h.stop.Done():
			return context.Cause(h.stop)
		}
	}
	return context.Cause(h.stop)
}

// Reconcile follows a listing and returns when all is settled. The error is that of Settled.
func (h *Host) Reconcile(ctx context.Context, l modelrepo.Listing) error {
	h.Follow(l)
	return h.Settled(ctx)
}

// enter admits a call that Close waits for. It returns a context that also ends when Close begins; done must follow.
// The error is errClosing.
func (h *Host) enter(ctx context.Context) (_ context.Context, done func(), _ error) {
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

// Newest returns the number of a model's newest version in the repository now. The error wraps catalog.ErrUnknown,
// or is a *catalog.ElsewhereError.
func (h *Host) Newest(model string) (int64, error) {
	if h.cfg.Scan != nil {
		for _, found := range h.cfg.Scan().Models {
			if found.Name == model && found.Elsewhere != nil {
				return 0, found.Elsewhere
			}
			if found.Name == model && len(found.Versions) > 0 {
				return found.Versions[len(found.Versions)-1].Number, nil
			}
		}
	}
	return 0, fmt.Errorf("model %q: %w: the repository has no version of it", model, catalog.ErrUnknown)
}
