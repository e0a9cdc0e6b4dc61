package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/weftserve/weft/internal/certs"
	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/lifecycle"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/server"
)

// reloadPart reloads at each SIGHUP: the settings file, the access file, the certificates and the repositories. apply
// lists the settings that may change at run time; docs/reference/configuration.md must say the same.
func (s *assembly) reloadPart(edge *server.Server, models *host.Host, ask chan time.Duration, log *slog.Logger,
) lifecycle.Part {
	a := s.App
	r := &reloader{
		app: a, log: log, ask: ask, access: s.authorizer, certs: s.certs,
		apply: map[string]func(now, inForce *config.Server){
			"log-level": func(now, inForce *config.Server) {
				inForce.LogLevel = now.LogLevel
				a.level.Set(logLevels[now.LogLevel])
			},
			"drain-timeout": func(now, inForce *config.Server) {
				inForce.DrainTimeout = now.DrainTimeout
				a.drain.Store(int64(now.DrainTimeout))
			},
			"max-concurrent-requests": func(now, inForce *config.Server) {
				inForce.MaxConcurrentRequests = now.MaxConcurrentRequests
				edge.SetMaxConcurrentRequests(now.MaxConcurrentRequests)
			},
			"model-memory": func(now, inForce *config.Server) {
				inForce.ModelMemory = now.ModelMemory
				models.SetMemoryBudget(int64(now.ModelMemory))
			},
			// see look
			"watch-interval": func(now, inForce *config.Server) { inForce.WatchInterval = now.WatchInterval },
		},
		inForce: a.Server,
	}
	return untilStopped("reloads", func(ctx context.Context) error {
		for {
			select {
			case <-a.hangups:
				// The service manager waits for the end of a reload that it asked for.
				s.supervisor.During(r.reload)
			case <-ctx.Done():
				return nil
			}
		}
	})
}

// reloader makes a running server follow its settings file. Only the goroutine of reloadPart uses it. In inForce,
// settings that need a restart stay as at the start, so that each reload names them again.
type reloader struct {
	app *App
	log *slog.Logger
	ask chan time.Duration // the repository watch; capacity 1
	// access follows the access file; nil: there is none.
	access *authorizer
	// certs are read again, too; nil: there are none
	certs *certs.Keeper
	// apply takes over a setting that may change at run time, by its key, and notes in inForce that it did. All others
	// need a restart.
	apply   map[string]func(now, inForce *config.Server)
	inForce config.Server
}

// read reads the settings file and the command line again. The file must be a regular one: a pipe has been read to its
// end, and one without a writer would block the reload for ever.
func (r *reloader) read() (*Settings, error) {
	info, err := os.Stat(string(r.app.Config))
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file and cannot be read again; name one with --config",
			r.app.Config)
	}
	return r.app.Reread()
}

// reload takes over the settings that may change at run time. Whatever becomes of that, it has the access file, the
// certificates and the repositories read again. A faulty settings file changes nothing.
func (r *reloader) reload() {
	defer r.look()
	if r.access != nil {
		r.access.readAgain()
	}
	if r.certs != nil {
		r.certs.Reload()
	}
	if r.app.Config == "" {
		r.log.Info("models reloading, no settings file", "event", "models_reloading")
		return
	}
	now, err := r.read()
	if err != nil {
		r.log.Error("settings file rejected", "event", "settings_rejected", "config", string(r.app.Config),
			"kept", "previous settings", "cause", err)
		return
	}
	var applied, restart []string
	for _, d := range r.inForce.Differences(&now.Server) {
		if apply := r.apply[d.Key]; apply != nil {
			apply(&now.Server, &r.inForce)
			applied = append(applied, d.String())
		} else {
			restart = append(restart, d.String())
		}
	}
	r.log.Info("settings reloaded, models reloading", "event", "settings_reloaded", "config", string(r.app.Config),
		"changed", applied)
	if len(restart) > 0 {
		r.log.Warn("changed settings need a restart", "event", "restart_required", "config", string(r.app.Config),
			"pending", restart)
	}
}

// look has the repositories listed now, and from then on at the interval in force. It replaces a wish that the watch
// has not read yet, and so never blocks: reloads alone write to the channel.
func (r *reloader) look() {
	select {
	case <-r.ask: // the latest wish is enough
	default:
	}
	r.ask <- time.Duration(r.inForce.WatchInterval)
}
