package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/lifecycle"
	"github.com/weftserve/weft/runtime/decisions"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/server/rollout"
)

// misplacedState says why a directory cannot be the state directory: scans of a repository would take it for a model,
// or for a part of one. "" if it can. A directory whose name begins with a dot is passed over by scans.
func misplacedState(setting string, repositories []string) string {
	if setting == config.StateDirNone || setting == config.StateDirAuto || setting == "" {
		return ""
	}
	for _, repository := range repositories {
		below, err := filepath.Rel(realPath(repository), realPath(setting))
		if err != nil {
			continue // then it is elsewhere
		}
		is := "is the repository itself"
		switch first, _, _ := strings.Cut(below, "/"); {
		case below == ".":
		case strings.HasPrefix(first, "."): // elsewhere, or passed over by scans
			continue
		default:
			is = fmt.Sprintf("would be taken for model %q of the repository, or for a part of it", first)
		}
		return fmt.Sprintf("%s %s; expected a directory outside of the repositories, or one such as %s", setting, is,
			filepath.Join(repository, ".weft-state"))
	}
	return ""
}

// realPath returns the absolute path with links resolved. Parts that do not exist yet stay as they are: the state
// directory may be made later.
func realPath(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if there, err := filepath.EvalSymlinks(path); err == nil {
		return there
	}
	if parent := filepath.Dir(path); parent != path {
		return filepath.Join(realPath(parent), filepath.Base(path))
	}
	return path
}

// firstFolder returns the directory below which the state directory is by default: the first repository or, without
// one, the directory of the list of models. "": all models are named by their files, whose folder goes with this
// server.
func firstFolder(s *Settings) string {
	if folders := s.folders(); len(folders) > 0 {
		if s.staged != nil && folders[0] == s.staged.dir {
			return ""
		}
		return folders[0]
	}
	return filepath.Dir(s.ModelConfigFile)
}

// openState opens the state directory, and returns the part that closes it. The store is nil if there is to be none;
// methods of a nil store keep nothing. A default directory that cannot be written is read, with a warning; one that was
// named must be good for both.
func openState(setting, repository string, log *slog.Logger) (s *decisions.Store, _ lifecycle.Part, err error) {
	if setting == config.StateDirAuto && repository == "" {
		setting = ""
	}
	switch setting {
	case config.StateDirNone, "":
		log.Info("no state directory", "event", "state_dir_off", "state_dir", setting,
			"effect", "what is decided at run time ends with this server")
	case config.StateDirAuto:
		s, err = decisions.OpenIfWritable(filepath.Join(repository, ".weft-state"), log)
	default:
		s, err = decisions.Open(setting, log)
		// A directory that another server uses has its own sentence.
		if _, inUse := errors.AsType[*decisions.InUseError](err); err != nil && !inUse {
			err = fmt.Errorf("--state-dir %s cannot be used: %w; name a directory that this server may write to, and "+
				"whose parent is there, or none", config.Absolute(setting), err)
		}
	}
	return s, lifecycle.Part{Name: "state directory", Stop: func(context.Context) error { return s.Close() }}, err
}

// tellInForce logs, for each listed model, the decisions of earlier servers that are in force: an operator that edits a
// manifest is to know what overrides it.
func tellInForce(s *decisions.Store, l modelrepo.Listing, log *slog.Logger) {
	for _, m := range l.Models {
		decided, _ := s.Recall(m.Name)
		if inForce := decided.InForce(); len(inForce) > 0 {
			log.Info("earlier decisions in force", append([]any{
				"event", "decisions_restored", "model", m.Name,
			}, inForce...)...)
		}
	}
}

// keptRollouts returns the unfinished rollouts that an earlier server has kept, by model.
func keptRollouts(s *decisions.Store) map[string]rollout.Kept {
	all := map[string]rollout.Kept{}
	for model, r := range s.Rollouts() {
		all[model] = rollout.Kept(r)
	}
	return all
}
