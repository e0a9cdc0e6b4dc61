package modelrepo

import (
	"errors"
	"log/slog"
	"os"
	"testing"

	"github.com/fsnotify/fsnotify"

	"github.com/weftserve/weft/internal/config"
)

// HasFree has a repository find so many bytes free on its file system.
func (r *Repository) HasFree(bytes int64) {
	r.free = func(*os.File) (int64, bool) { return bytes, true }
}

// FailLocks has each lock of the folder of an upload fail, until the test ends.
func FailLocks(t *testing.T, err error) {
	before := flock
	flock = func(int, int) error { return err }
	t.Cleanup(func() { flock = before })
}

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

// TellTriton reads a config.pbtxt of a model m over the defaults. It returns what became of each path that is set:
// "sets KEY", "note", "fault", or "taken".
func TellTriton(data []byte) (m Manifest, told map[string]string, notes []string, faults config.Faults) {
	m = Defaults()
	t := readTriton("config.pbtxt", data, []string{"m"}, &m)
	told = map[string]string{}
	what := map[string]string{}
	for path := range t.told {
		what[path] = "taken"
	}
	for key, path := range t.set {
		what[path] = "sets " + key
	}
	for _, note := range t.notes {
		what[note.path] = "note"
		notes = append(notes, note.text)
	}
	for _, fault := range t.faults {
		what[fault.Key] = "fault"
	}
	for _, leaf := range t.leaves {
		told[leaf] = "nothing"
		for path := leaf; path != ""; path = parentOf(path) {
			if w, ok := what[path]; ok {
				told[leaf] = w
				break
			}
		}
	}
	return m, told, notes, t.faults
}

// ReadModelConfig returns the number of models in a model config file.
func ReadModelConfig(file string, text []byte) (int, error) {
	models, err := readModelConfig(file, text)
	return len(models), err
}
