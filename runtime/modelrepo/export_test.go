package modelrepo

import (
	"errors"
	"log/slog"

	"github.com/fsnotify/fsnotify"
)

// WithoutEvents returns the configuration for a system that gives no events.
func (w WatchConfig) WithoutEvents() WatchConfig {
	w.open = func() (*fsnotify.Watcher, error) { return nil, errors.New("no events here") }
	return w
}

// Follow tries to get events of the directories, twice.
func Follow(dirs map[string]string, log *slog.Logger) {
	n := newNotifier(fsnotify.NewWatcher, log)
	defer n.close()
	n.follow(dirs)
	n.follow(dirs)
}
