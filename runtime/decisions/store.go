package decisions

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// The names in a state directory. Everything else in it is left alone.
const (
	lockName  = "lock"
	suffix    = ".json"           // of a model's file
	temporary = suffix + ".tmp"   // of one that is being written
	aside     = suffix + ".aside" // of one that could not be read; a number up to maxAside follows
)

const maxAside = 8

// stemOf returns the name of a model's file, without what follows. That of a model whose name is too long for a file is
// its beginning and a digest; no model has a ~ in its name.
func stemOf(model string) string {
	const most = 255 - len(temporary) - len(aside) - 1
	if len(model) <= most {
		return model
	}
	sum := fmt.Sprintf("~%x", sha256.Sum256([]byte(model)))
	return model[:most-len(sum)] + sum
}

// ErrLost says that the state directory is not this process's any more.
var ErrLost = errors.New("it was removed or replaced while this server ran, and another one may have it; start this " +
	"server again to have decisions kept")

// InUseError says that another process has the state directory.
type InUseError struct{ Dir string }

func (e *InUseError) Error() string {
	return fmt.Sprintf("the state directory %s is in use by another server; stop that one, or give this one a "+
		"directory of its own (--state-dir), or none", e.Dir)
}

// Store is a state directory: one file for each model that something was decided about. Safe for concurrent use. A nil
// Store has nothing and keeps nothing.
type Store struct {
	files files
	dir   string
	lock  lock // nil: decisions from now on are not kept

	mu     sync.Mutex
	models map[string]Model // as kept last; guarded by mu
}

// Open opens a state directory, which it makes if it is not there, and locks it until Close. Files that cannot be read
// are renamed, and logged as errors; remains of writes that a crash cut short are removed. The error is an *InUseError,
// or why nothing can be written there.
func Open(dir string, log *slog.Logger) (*Store, error) { return open(disk{}, dir, log) }

// OpenIfWritable is Open, but where nothing can be written there it only says so in the log, and the decisions that
// were kept before are in force.
func OpenIfWritable(dir string, log *slog.Logger) (*Store, error) {
	return openIfWritable(disk{}, dir, log)
}

func open(f files, dir string, log *slog.Logger) (*Store, error) {
	s := &Store{files: f, dir: dir, models: map[string]Model{}}
	if err := s.take(); err != nil {
		return nil, err
	}
	if err := s.load(log); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func openIfWritable(f files, dir string, log *slog.Logger) (*Store, error) {
	s, err := open(f, dir, log)
	if _, inUse := errors.AsType[*InUseError](err); err == nil || inUse {
		return s, err
	}
	log.Warn("state directory unusable", "event", "state_dir_unusable", "dir", dir,
		"effect", "traffic, rollouts, rollbacks, labels, versions loaded by hand and what was found about batches end with "+
			"this server",
		"remedy", "name a writable directory with --state-dir", "cause", err)
	s = &Store{files: f, dir: dir, models: map[string]Model{}}
	if err := s.load(log); err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Error("earlier decisions unreadable", "event", "state_dir_unreadable", "dir", dir,
			"effect", "they are not in force", "cause", err)
	}
	return s, nil
}

// take makes the directory lasting and locks it.
func (s *Store) take() (err error) {
	if err := s.files.Mkdir(s.dir); err != nil {
		return err
	}
	s.lock, err = s.files.Lock(filepath.Join(s.dir, lockName))
	if errors.Is(err, errLocked) {
		return &InUseError{s.dir}
	}
	if err != nil {
		return err
	}
	return s.files.SyncDir(filepath.Dir(s.dir))
}

// load reads the stored decisions.
func (s *Store) load(log *slog.Logger) error {
	names, err := s.files.List(s.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		path := filepath.Join(s.dir, name)
		if strings.HasSuffix(name, temporary) && s.lock != nil {
			if err := s.files.Remove(path); err != nil {
				return err
			}
		}
		if model, _, is := strings.Cut(name, aside); is && !slices.Contains(names, model+suffix) {
			log.Warn("decisions set aside at an earlier start", "event", "decisions_still_aside",
				"model", model, "file", path, "effect", "they are not in force, and none were made since")
		}
		stem, is := strings.CutSuffix(name, suffix)
		if !is {
			continue
		}
		var m Model
		model := stem
		text, why := s.files.Read(path)
		if why == nil {
			model, m, why = decode(stem, text)
		}
		if why == nil {
			s.models[model] = m
			continue
		}
		if s.lock != nil {
			if path, err = s.putAside(path, names); err != nil {
				return err
			}
		}
		log.Error("DECISIONS UNREADABLE AND NOT IN FORCE", "event", "decisions_unreadable", "model", model,
			"file", path, "effect", "served as model.yaml says; a version that was rolled back may answer",
			"remedy", "decide again with SetTraffic and SetLabel, or stop the server and put a mended file in place",
			"cause", why)
	}
	return nil
}

// putAside renames a file that cannot be read, so that it is not written over, and returns its new name. Of more than
// maxAside such files the first ones and the latest are kept.
func (s *Store) putAside(path string, taken []string) (string, error) {
	stem, n := strings.TrimSuffix(filepath.Base(path), suffix)+aside, 1
	for n < maxAside && slices.Contains(taken, fmt.Sprint(stem, n)) {
		n++
	}
	to := filepath.Join(s.dir, fmt.Sprint(stem, n))
	return to, errors.Join(s.files.Rename(path, to), s.files.SyncDir(s.dir))
}

// Recall returns the decisions that were kept about a model, and whether there were any.
func (s *Store) Recall(model string) (Model, bool) {
	if s == nil {
		return Model{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.models[model]
	return m, ok
}

// Rollout is the stored form of a model's latest rollout.
type Rollout struct {
	Text     []byte // JSON
	Revision uint64 // of the traffic that it set last
}

// Rollouts returns the rollouts that were kept, by model.
func (s *Store) Rollouts() map[string]Rollout {
	all := map[string]Rollout{}
	if s == nil {
		return all
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, m := range s.models {
		if m.Rollout != nil {
			all[name] = Rollout{m.Rollout, m.RolloutRevision}
		}
	}
	return all
}

// NotLasting says why decisions from now on end with the process; "" if they outlive it.
func (s *Store) NotLasting() string {
	if s == nil || s.lock == nil {
		return "the server has no state directory that it can write to (--state-dir)"
	}
	return ""
}

// Keep makes the decisions about a model outlive the process and a failure of the machine, unless none do (NotLasting):
// it returns when they are stored. The error says why they are not kept, such as ErrLost; then the decisions that were
// kept before remain. It must not be called for one model from two goroutines at once.
func (s *Store) Keep(model string, m Model) error {
	if s == nil {
		return nil
	}
	if s.lock != nil {
		if err := s.replace(model, m); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.models[model] = m
	return nil
}

// replace stores the decisions about a model for good.
func (s *Store) replace(model string, m Model) error {
	if err := s.lock.Held(); err != nil {
		return err
	}
	text, err := encode(model, m)
	if err != nil {
		return err
	}
	path := filepath.Join(s.dir, stemOf(model)+suffix)
	if err := s.write(path, text); err != nil {
		return err
	}
	if err := s.files.SyncDir(s.dir); err != nil {
		return errors.Join(err, s.restore(model, path))
	}
	return nil
}

// write replaces a file, so that a reader sees the old one or the new one, never a part, also after a crash.
func (s *Store) write(path string, text []byte) (err error) {
	unfinished := strings.TrimSuffix(path, suffix) + temporary
	f, err := s.files.Create(unfinished)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = s.files.Rename(unfinished, path)
	}
	if err != nil {
		_ = s.files.Remove(unfinished) // else the next write or the next start does
	}
	return err
}

// restore puts back the decisions that were kept before, after a file was replaced and it is unknown whether for good.
func (s *Store) restore(model, path string) error {
	s.mu.Lock()
	before, was := s.models[model]
	s.mu.Unlock()
	if !was {
		return errors.Join(s.files.Remove(path), s.files.SyncDir(s.dir))
	}
	text, err := encode(model, before)
	if err != nil {
		return err
	}
	return errors.Join(s.write(path, text), s.files.SyncDir(s.dir))
}

// Close gives the directory free.
func (s *Store) Close() error {
	if s == nil || s.lock == nil {
		return nil
	}
	return s.lock.Close()
}
