package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/weftserve/weft/examples/plant"
	"github.com/weftserve/weft/proto/weftclient"
)

// options are the command line.
type options struct {
	addr     string
	model    string
	machine  string
	versions []version // never empty
	hz       float64
	episodes int
	steps    int
	duration time.Duration
	deadline time.Duration
	seed     uint64
	lockstep bool
	wait     bool     // the machines stand still until they are answered
	report   bool     // send the result of each episode to the server
	rollout  *rollout // nil: none

	checkpoint int // after how many steps the state is fetched, where the server keeps it; 0: never
}

// version is a wish: a number, a label, or empty for the server's choice.
type version string

// spec returns the wish as the API writes it.
func (v version) spec(model string) *weftclient.ModelSpec {
	if number, err := strconv.ParseInt(string(v), 10, 64); err == nil {
		return weftclient.Version(model, number)
	} else if v != "" {
		return weftclient.Label(model, string(v))
	}
	return weftclient.Model(model)
}

// period returns the time between two actions.
func (o options) period() time.Duration { return time.Duration(float64(time.Second) / o.hz) }

// parse reads the command line. Usage goes to stderr; -help is [flag.ErrHelp].
func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var versions, stages string
	var r rollout
	flags := flag.NewFlagSet("controlloop", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the caller prints the error
	flags.StringVar(&o.addr, "addr", "127.0.0.1:9000", "`host:port` of the server")
	flags.StringVar(&o.model, "model", "cartpole", "model to ask")
	flags.StringVar(&o.machine, "machine", "", "simulated machine (default: the one named like the model, up to a hyphen)")
	flags.StringVar(&versions, "versions", "",
		"versions or labels, such as 1,2,stable, dealt out evenly (default: the server's choice)")
	flags.Float64Var(&o.hz, "hz", 1/plant.Period,
		"control rate; each period is one 20 ms step of the machine, so 50 is real time")
	flags.IntVar(&o.episodes, "episodes", 32, "episodes at once, over all versions")
	flags.IntVar(&o.steps, "steps", 0, "end an episode after so many steps (default: the machine's own limit)")
	flags.DurationVar(&o.duration, "duration", 0,
		"start new episodes until then (default: one for each machine); a started one is finished")
	flags.DurationVar(&o.deadline, "deadline", 0,
		"how long after the observation an action is of use (default: the control period, which is also the most)")
	flags.Uint64Var(&o.seed, "seed", 1, "seed of the first episode; every version gets the same ones")
	flags.BoolVar(&o.lockstep, "lockstep", false,
		"observe all machines at the same instant (default: spread over the period)")
	flags.BoolVar(&o.wait, "wait", false,
		"stop the machines until they are answered, for up to --deadline (default: a minute), as a simulation can")
	flags.IntVar(&o.checkpoint, "checkpoint", 0, "where the server keeps the state of episodes, fetch it after so many "+
		"steps, to go on from there if the server loses it (default: never)")
	flags.BoolVar(&o.report, "report", false, "report the reward of each finished episode to the server")
	flags.StringVar(&stages, "rollout", "", "lead a candidate version through growing traffic, by its reward: "+
		"`BASELINE:CANDIDATE`, such as 2:3; ends with the rollout")
	flags.StringVar(&r.admin, "admin", "127.0.0.1:9002", "`host:port` of the server's admin address, for --rollout")
	flags.DurationVar(&r.stage, "stage", 5*time.Second, "how long each stage of the rollout lasts at least")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(stderr)
		flags.PrintDefaults()
		return options{}, err
	case err != nil:
		return options{}, fmt.Errorf("%w; see --help", err)
	}

	if o.machine == "" {
		o.machine, _, _ = strings.Cut(o.model, "-")
	}
	if o.wait && o.deadline == 0 {
		o.deadline = time.Minute
	}
	for name := range strings.SplitSeq(versions, ",") {
		o.versions = append(o.versions, version(strings.TrimSpace(name)))
	}
	switch {
	case flags.NArg() > 0:
		return options{}, fmt.Errorf("unexpected argument %q; there are only flags, see --help", flags.Arg(0))
	case !(o.hz > 0) || o.period() <= 0: // also refuses NaN
		return options{}, fmt.Errorf("--hz %g: want a rate above 0 and at most 1e9", o.hz)
	case o.episodes < len(o.versions):
		return options{}, fmt.Errorf("--episodes %d: want at least one for each of the %d versions", o.episodes,
			len(o.versions))
	case o.steps < 0:
		return options{}, fmt.Errorf("--steps %d: want 0 (the machine's own limit) or more", o.steps)
	case o.duration < 0:
		return options{}, fmt.Errorf("--duration %v: want 0s (one episode for each machine) or more", o.duration)
	case o.checkpoint < 0:
		return options{}, fmt.Errorf("--checkpoint %d: want 0 (never) or more", o.checkpoint)
	case o.deadline < 0 || o.deadline > o.period() && !o.wait:
		return options{}, fmt.Errorf(
			"--deadline %v: want at most the control period of %v: the next observation replaces the action",
			o.deadline, o.period())
	}
	if stages != "" {
		wish, err := parseRollout(stages)
		if err != nil {
			return options{}, err
		}
		if versions != "" {
			return options{}, fmt.Errorf("--versions %q: a rollout divides the episodes itself; leave it out", versions)
		}
		wish.admin, wish.stage = r.admin, r.stage
		o.rollout, o.report = &wish, true
	}
	for _, v := range o.versions {
		if v == "" && len(o.versions) > 1 {
			return options{}, fmt.Errorf(
				"--versions %q: a version is empty; want names such as 1,2,stable, or nothing for the server's choice",
				versions)
		}
	}
	if o.deadline == 0 {
		o.deadline = o.period()
	}
	return o, nil
}
