package modelrepo

import (
	"errors"
	"io/fs"
	"log/slog"

	"github.com/fsnotify/fsnotify"
)

// notifier reports that something happened in directories. It is an aid: polling finds the changes that it misses.
type notifier struct {
	watcher *fsnotify.Watcher // nil: the system gives no events
	events  <-chan fsnotify.Event
	errors  <-chan error
	watched map[string]string // the directories, by path, and which ones they were
	log     *slog.Logger
	told    bool
}

func newNotifier(open func() (*fsnotify.Watcher, error), log *slog.Logger) *notifier {
	n := &notifier{watched: map[string]string{}, log: log}
	watcher, err := open()
	if err != nil {
		n.tell(err)
		return n
	}
	n.watcher, n.events, n.errors = watcher, watcher.Events, watcher.Errors
	return n
}

// tell logs once that polling has to do without events.
func (n *notifier) tell(err error) {
	if !n.told {
		n.log.Warn("repository directories without file events", "event", "repository_events_missing",
			"effect", "changes there are noticed by polling only, a little later", "cause", err)
		n.told = true
	}
}

// follow watches the given directories and no others. A directory that took the path of another is watched again.
func (n *notifier) follow(dirs map[string]string) {
	if n.watcher == nil {
		return
	}
	for path, id := range n.watched {
		if dirs[path] != id {
			_ = n.watcher.Remove(path) // it fails when the directory has gone, and its watch with it
			delete(n.watched, path)
		}
	}
	for path, id := range dirs {
		if _, ok := n.watched[path]; ok {
			continue
		}
		switch err := n.watcher.Add(path); {
		case err == nil:
			n.watched[path] = id
		case !errors.Is(err, fs.ErrNotExist): // a change since the scan is for the next one
			n.tell(err)
		}
	}
}

func (n *notifier) close() {
	if n.watcher != nil {
		_ = n.watcher.Close() // it has nothing to lose
	}
}
