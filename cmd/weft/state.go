package main

import (
	"context"
	"log/slog"
	"path/filepath"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/lifecycle"
	"github.com/weftserve/weft/runtime/decisions"
	"github.com/weftserve/weft/server/rollout"
)

// openState opens the state directory, nil if there is to be none, and returns the part that gives it free.
func openState(setting, repository string, log *slog.Logger) (s *decisions.Store, _ lifecycle.Part, err error) {
	switch setting {
	case config.StateDirNone, "":
		log.Info("what is decided at run time ends with this server, as --state-dir says")
	case config.StateDirAuto:
		s, err = decisions.OpenIfWritable(filepath.Join(repository, ".weft-state"), log)
	default:
		s, err = decisions.Open(setting, log)
	}
	return s, lifecycle.Part{Name: "state directory", Stop: func(context.Context) error { return s.Close() }}, err
}

// keptRollouts are those of earlier servers.
func keptRollouts(s *decisions.Store) map[string]rollout.Kept {
	all := map[string]rollout.Kept{}
	for model, r := range s.Rollouts() {
		all[model] = rollout.Kept(r)
	}
	return all
}
