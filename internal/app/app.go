// Package app puts a server together: it decides which part is started when, and how the parts are connected.
package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/alecthomas/kong"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/lifecycle"
	"github.com/weftserve/weft/internal/owntime"
	"github.com/weftserve/weft/internal/progress"
	"github.com/weftserve/weft/internal/telemetry"
)

// App is one server and all that is around it.
type App struct {
	Settings
	// Hints is told what to try, once the server is ready; nil: nobody. Program is how the user calls this program.
	Hints   io.Writer
	Program string
	Reread  func() (*Settings, error) // reads the settings once more, as when the program began

	gpuStandIns gpuStandIns                // of a test
	atEnd       func(metrics http.Handler) // of a test; called once all parts but the metrics have stopped
	settle      time.Duration              // of a test; how long files of a repository must be quiet. 0: as usual
	hangups     <-chan os.Signal           // ask for a reload; nil: there are no reloads
	level       slog.LevelVar              // of the log
	drain       atomic.Int64               // nanoseconds; the drain timeout that is in force
	terminal    bool                       // the log goes to one
	loading     *loadingLine               // until the server is ready; nil: the log says it
}

// Run serves until a signal, or a part that fails, ends it. It writes the log.
func (a *App) Run(log io.Writer) error {
	if err := a.Check(); err != nil {
		return err
	}
	if err := reserveThreads(); err != nil {
		return err
	}
	// The handlers are there before anything else: GPU libraries replace signal handlers while they load.
	signals := lifecycle.Signals()
	// From here on SIGHUP does not end the process.
	a.hangups = lifecycle.Hangups()
	if err := a.stage(); err != nil {
		return err
	}
	defer a.unstage()
	a.terminal = progress.Terminal(log)
	if a.terminal && a.LogFormat != "json" {
		a.loading = newLoadingLine(log, "weft serve")
		// The log goes through the line, so that a record does not end up in the middle of it.
		defer a.loading.Close()
		log = a.loading
	}
	return a.serve(signals, newLogger(log, &a.Settings, &a.level))
}

// serve is Run with the signals and the log of a test. The error is nil after an orderly stop that a signal asked for.
func (a *App) serve(signals <-chan os.Signal, log *slog.Logger) error {
	// It is read when the stop begins, and not here: a reload may change it meanwhile.
	a.drain.Store(int64(a.DrainTimeout))
	stop := lifecycle.Config{
		Signals:      signals,
		DrainTimeout: func() time.Duration { return time.Duration(a.drain.Load()) }, Logger: log,
	}
	err := lifecycle.Run(stop, func(ctx context.Context, g *lifecycle.Group) error { return a.start(ctx, g, log) })
	if err == nil {
		log.Info("stopped", "event", "stopped")
	}
	return err
}

// start puts the server together, from the repositories to the first answer. Parts are stopped in the opposite order of
// their starts, so that a step may only start a part after all that the part needs while it stops. An error
// leaves the parts that run to lifecycle.Run, which stops them.
func (a *App) start(ctx context.Context, g *lifecycle.Group, log *slog.Logger) error {
	s := &assembly{
		App: a, group: g, log: log, began: time.Now(), clock: owntime.New(),
		ask: make(chan time.Duration, 1), supervisor: lifecycle.NewSupervisor(log),
	}
	// ctx ends when the stop begins, whatever the cause.
	context.AfterFunc(ctx, s.supervisor.Stopping)
	for _, step := range []func(context.Context) error{
		s.findModels,
		s.readAccess,    // --access
		s.tellOperators, // --ort-ops
		s.openCerts,
		s.listen,         // before models are loaded for minutes, so that a fault of an address is reported at once
		s.openState,      // decisions by operators and by rollouts, of this server and earlier ones
		s.traceScheduler, // --sched-trace
		s.buildHouse,     // the scheduler, the engines and the models
		s.buildEdge,      // the parts that answer requests: shadows, rollouts, a recording, the service itself
		s.load,           // begins to load the listed models
		// so a caller learns that its model is being loaded; before, there would seem to be no such model
		s.serveCalls,
		s.follow, // the repositories and the settings file
		s.awaitModels,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Settings are the arguments and flags of every command that reads repositories.
type Settings struct {
	Repositories []string        `arg:"" optional:"" name:"repository" help:"Directory of <model>/<version>/model.onnx, or one model: FILE.onnx or its directory; with -tags cloud also s3://, gs://, azblob://, oci://."`
	Name         string          `name:"name" placeholder:"MODEL" group:"Models:" help:"Name of a single model."`
	Config       kong.ConfigFlag `placeholder:"FILE" help:"YAML settings file; its keys are the flag names, and flags win."`
	config.Server
	OpenMirror OpenMirror `kong:"-"` // nil: this program knows no repositories elsewhere

	paths   []string          // the repositories, once the models that Repositories names are staged
	staged  *staging          // nil: all models lie in repositories
	mirrors map[string]Mirror // by the URLs among Repositories
}

// Validate refuses a command line that names no models; kong calls it.
func (s *Settings) Validate() error {
	if len(s.Repositories) == 0 && s.ModelConfigFile == "" {
		return errors.New(`expected "<repository> ...", "FILE.onnx ...", or --model-config-file`)
	}
	return nil
}

// Check returns everything that is wrong with the settings together, as config.Faults. Their keys are flags, even where
// a value came from the settings file.
func (s *Settings) Check() error {
	faults := s.Server.Check()
	if wrong := misplacedState(s.StateDir, s.Repositories); wrong != "" {
		faults.Addf("state-dir", "%s", wrong)
	}
	checkOperators(s.ORTOps, &faults)
	for i := range faults {
		faults[i].Key = "--" + faults[i].Key
	}
	return faults.Err()
}

// config.Server.Check has refused all other levels.
var logLevels = map[config.LogLevel]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

// newLogger returns a logger that writes to w in the format that the settings name. It sets level to theirs. A reload
// changes level later, and the logger follows.
func newLogger(w io.Writer, s *Settings, level *slog.LevelVar) *slog.Logger {
	level.Set(logLevels[s.LogLevel])
	options := &slog.HandlerOptions{Level: level}
	if s.LogFormat == "json" || s.staged != nil {
		options.ReplaceAttr = s.inLog
	}
	// Texts of callers are in the log.
	w = printable{w}
	if s.LogFormat == "json" {
		return slog.New(telemetry.LogHandler(slog.NewJSONHandler(w, options)))
	}
	return slog.New(telemetry.LogHandler(slog.NewTextHandler(w, options)))
}

// inLog gives durations in JSON a unit: "took" becomes "took_seconds". By itself slog would write nanoseconds as plain
// numbers. Texts name the files of the command line.
func (s *Settings) inLog(_ []string, a slog.Attr) slog.Attr {
	switch value := a.Value.Any().(type) {
	case time.Duration:
		if s.LogFormat == "json" {
			return slog.Float64(a.Key+"_seconds", value.Seconds())
		}
	case string:
		return slog.String(a.Key, s.staged.told(value))
	case error:
		return slog.String(a.Key, s.staged.told(value.Error()))
	}
	return a
}
