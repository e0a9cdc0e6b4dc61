package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/weftserve/weft/tools/lab/harness"
)

// round is one turn of all that is compared, in one placement.
type round struct {
	*runCommand
	ctx      context.Context //nolint:containedctx // a round is as short as a call
	progress io.Writer
	effort   effort
	place    place
	number   int
	folder   string
	book     *book

	servers map[string]*server
	scene   string
}

// Names of the servers that are compared.
const (
	weftDevice   = "weft"
	weftNone     = "weft, no isolation"
	weftBaseline = "baseline"
)

// wefts returns the names of the Weft servers.
func (r *round) wefts() []string {
	names := []string{weftDevice, weftNone}
	if r.Baseline != "" {
		names = append(names, weftBaseline)
	}
	return names
}

// start starts every server that is compared.
func (r *round) start() error {
	self, err := os.Executable() // which is also the echo and the engine
	if err != nil {
		return err
	}
	repository := filepath.Join(r.folder, "models")
	for _, m := range models() {
		if err := harness.Write(modelPath(repository, m.name), m.file()); err != nil {
			return err
		}
	}
	for _, kind := range []string{echoBytes, echoDecodes, echoZeroCopy, echoRefusal} {
		if err := r.add(kind, self, "echo", kind); err != nil {
			return err
		}
	}
	for _, name := range r.wefts() {
		if err := r.addWeft(name, repository); err != nil {
			return err
		}
	}
	return nil
}

func (r *round) addWeft(name, repository string, flags ...string) error {
	path := r.Weft
	switch name {
	case weftBaseline:
		path = r.Baseline
	case weftNone:
		flags = append(flags, "--isolation", "none")
	default:
	}
	return r.add(name, path, harness.Serve(repository,
		slices.Concat([]string{"--admin-listen=", "--watch-interval=0s"}, flags, r.Flags)...)...)
}

func (r *round) add(name, program string, args ...string) error {
	logs := filepath.Join(r.folder, fmt.Sprintf("round-%d-%s", r.number+1, r.place.name))
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return err
	}
	s, err := serve(r.ctx, name, logs, r.place.server, program, args...)
	if err == nil {
		r.servers[name] = s
	}
	return err
}

func (r *round) stop() error {
	var errs []error
	for _, s := range r.servers {
		if err := s.Stop(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	return errors.Join(errs...)
}

// play measures all parts.
func (r *round) play() (err error) {
	defer func() { err = errors.Join(err, r.stop()) }()
	if err := r.start(); err != nil {
		return err
	}
	for _, p := range parts {
		if !r.wants(p.name) {
			continue
		}
		if err := p.scene(r); err != nil {
			return err
		}
	}
	return nil
}

// note keeps a figure of the present scene.
func (r *round) note(target, figure string, value float64) {
	r.book.note(key{r.place.name, r.scene, target, figure}, r.number, value)
}

// Figures of closed loops.
const (
	answersFigure = "answers/s"
	cpuFigure     = "cpu us"
	p50Figure     = "p50 ms"
	p99Figure     = "p99 ms"
	memoryFigure  = "memory MB"
	batchRows     = "rows in a batch"
)

// closed has callers ask some servers, one after the other, in another order every other round.
func (r *round) closed(scene string, l load, targets ...string) error {
	r.scene = scene
	l.deadline = safety
	targets = slices.Clone(targets)
	if r.number%2 == 1 {
		slices.Reverse(targets)
	}
	for _, name := range targets {
		m, err := r.bench(r.servers[name], l)
		if err != nil {
			return err
		}
		if ok := m.Codes["OK"]; ok == 0 || ok < m.Sent*99/100 {
			return fmt.Errorf("%s, %s: %d of %d requests were answered: %v", scene, name, ok, m.Sent, m.FirstErrors)
		}
		r.note(name, answersFigure, m.AnswersPS)
		r.note(name, cpuFigure, m.cpuUs)
		r.note(name, p50Figure, m.LatencyMs.P50)
		r.note(name, p99Figure, m.LatencyMs.P99)
		r.note(name, memoryFigure, m.memory)
		r.note(name, batchRows, m.Server.BatchRows)
	}
	return nil
}

// Run measures in a folder of its own.
func (c *runCommand) Run(ctx context.Context, o harness.Output) error {
	e := c.effort()
	places, err := c.places(e)
	if err != nil {
		return err
	}
	return harness.InFolder("weft-limits", func(folder string) error { return c.measure(ctx, o, folder, e, places) })
}

// measure measures everything, and prints the tables.
func (c *runCommand) measure(
	ctx context.Context, o harness.Output, folder string, e effort, places []place,
) (err error) {
	b := newBook()
	for n := range e.rounds {
		for _, p := range places {
			r := &round{
				runCommand: c, ctx: ctx, progress: o.Err, effort: e, place: p, number: n, folder: folder, book: b,
				servers: map[string]*server{},
			}
			if failed := r.play(); failed != nil { // what it measured until then counts
				fmt.Fprintf(o.Err, "round %d, %s: %v\n", n+1, p.name, failed)
				err = errors.Join(err, failed)
			}
			if ctx.Err() != nil {
				return errors.Join(err, ctx.Err())
			}
		}
	}
	if err != nil {
		c.Out = "" // not every figure is of as many rounds as it says
	}
	return errors.Join(err, c.publish(b, places, e, o))
}
