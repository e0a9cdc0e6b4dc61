package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/replay"
	"github.com/weftserve/weft/server/rollout"
)

// Exit statuses of `weft replay` beyond 0, which is PROMOTE, and those of every command.
const (
	statusHold     = 3
	statusRollback = 4
)

// replayCommand is `weft replay`.
type replayCommand struct{ replay.Options }

// Help implements kong.HelpProvider: the text below the flags.
func (replayCommand) Help() string {
	return `The command sends the recorded requests of one model, and compares outputs, compute times and codes with the recorded
ones. Then a gate judges the version. The recording needs full inputs ("weft serve --record-inputs full"). The exit
status is 0 for PROMOTE, 3 for HOLD and 4 for ROLLBACK.`
}

// Run replays. The error is a *replay.VerdictError unless the gate says PROMOTE.
func (c *replayCommand) Run(s streams) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return replay.Run(ctx, &c.Options, s.out, s.err)
}

// statusOf returns the exit status for the error of any command: 2 if the settings are wrong, 3 or 4 for the verdict of
// a replay, 1 for every other failure.
func statusOf(err error) int {
	if _, wrong := errors.AsType[config.Faults](err); wrong {
		return statusUsage
	}
	verdict, ok := errors.AsType[*replay.VerdictError](err)
	switch {
	case !ok:
		return statusFailed
	case verdict.Verdict == rollout.Rollback:
		return statusRollback
	}
	return statusHold
}
