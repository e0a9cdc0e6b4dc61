package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/alecthomas/kong"

	"github.com/weftserve/weft/internal/ask"
	"github.com/weftserve/weft/internal/config"
)

// pushCommand is `weft push`.
type pushCommand struct {
	ask.Push

	rolloutPlan `embed:"" group:"Rollout"`
}

// Help implements kong.HelpProvider: the text below the flags.
func (*pushCommand) Help() string {
	return `If versions.policy selects the version, the command returns when it is ready, or prints why it is not.`
}

// Run uploads the version. Before a rollout the version that answers is given all traffic: the new one would take it
// over as the newest.
func (c *pushCommand) Run(ctx context.Context, out io.Writer, s streams, line *kong.Context) error {
	if !c.Rollout {
		for _, p := range line.Path {
			if p.Flag != nil && p.Flag.Group != nil && p.Flag.Group.Key == "Rollout" {
				return config.Faults{{Key: "--" + p.Flag.Name, Message: "expected --rollout with it, which begins a rollout"}}
			}
		}
		_, err := c.Push.Run(ctx, out)
		return err
	}
	if c.JSON {
		return config.Faults{{Key: "--json", Message: "a rollout is printed as text; leave out --json or --rollout"}}
	}
	baseline, undo, err := c.Hold(ctx)
	if err != nil {
		return err
	}
	pushed, err := c.Push.Run(ctx, out)
	if err == nil {
		err = c.start(baseline, pushed.Version, s)
	}
	switch {
	case err == nil, pushed.Differs:
		return err
	case pushed.Maybe:
		return errors.Join(err, c.held(baseline, pushed.Version, undo != nil))
	case undo == nil:
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), adminPatience)
	defer cancel()
	return errors.Join(err, undo(ctx))
}

// held says what remains of a push that failed when its version was stored, or may have been. Without the traffic that
// it was given, the version before would be replaced by one that nobody has tried.
func (c *pushCommand) held(baseline, version int64, undoable bool) error {
	stored, number := "the version may be stored", "N"
	if version > 0 {
		number = strconv.FormatInt(version, 10)
		stored = "version " + number + " is stored"
	}
	text := fmt.Sprintf("%s, version %d keeps all traffic; begin with `weft rollout start %s --baseline %d --candidate %s`",
		stored, baseline, c.Model, baseline, number)
	if undoable {
		text += fmt.Sprintf(", or undo with `weft traffic %s --clear`", c.Model)
	}
	return errors.New(text)
}

// start begins the rollout.
func (c *pushCommand) start(baseline, candidate int64, s streams) error {
	start := rolloutStart{
		adminTarget: adminTarget{Model: c.Model, Admin: c.Admin}, Baseline: baseline, Candidate: candidate,
		rolloutPlan: c.rolloutPlan,
	}
	return start.Run(s)
}
