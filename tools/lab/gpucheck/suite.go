package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/weftserve/weft/internal/ortlib"
)

// suite is the checks of one device.
type suite struct {
	*options

	bounds   bounds
	report   *report
	engine   engine
	progress io.Writer
}

// bounds are the figures that a GPU must reach.
type bounds struct {
	difference float64 // of an answer from the CPU's, as a part of the output's largest magnitude
	// the same of these, whose neighbours are farther apart, and which the CPU computes in fp32
	fp16, bf16 float64
	batch      time.Duration // least time of a batch that the next three hold for
	full       float64       // least part of its rows that such a batch has on average
	busy       float64       // least part of the time in which the device has a batch
	gap        time.Duration // 99 of 100 pauses before a batch are shorter
	throughput float64       // least part of the throughput of a loop in one process
	share      float64       // greatest deviation from the ratio of the weights
	graphHits  float64       // least part of the executions that replay a captured graph
}

var gpuBounds = bounds{
	difference: 1e-3, fp16: 1e-2, bf16: 3e-2,
	batch: 5 * time.Millisecond, full: 0.95, busy: 0.98, gap: 50 * time.Microsecond, throughput: 0.95,
	share: 0.02, graphHits: 0.9,
}

// check is one check: it adds rows to the report. An error is a check that could not be made.
type check struct {
	name string
	make func(*suite, context.Context) error
}

var checks = []check{
	{"correctness", (*suite).correctness},
	{"saturation", (*suite).saturation},
	{"beside", (*suite).beside},
	{"weights", (*suite).weights},
	{"hurried", (*suite).hurried},
	{"policy", (*suite).policy},
	{"lanes", (*suite).lanes},
	{"loading", (*suite).loading},
	{"memory", (*suite).memory},
	{"telemetry", (*suite).telemetry},
}

func checkNames() (names []string) {
	for _, c := range checks {
		names = append(names, c.name)
	}
	return names
}

// newSuite prepares the checks and the results folder.
func newSuite(o *options, progress io.Writer) (*suite, error) {
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return nil, err
	}
	if entries, err := os.ReadDir(o.Out); err != nil || len(entries) > 0 {
		return nil, fmt.Errorf("--out %s: expected a new or empty folder", o.Out)
	}
	find := ortlib.Find
	if o.ONNXRuntimeLib != "" {
		find = func() (string, error) { return ortlib.Named(o.ONNXRuntimeLib) }
	}
	library, err := find()
	if err != nil {
		return nil, err
	}
	o.ONNXRuntimeLib = library
	e, err := newEngine(library, o.Device)
	if err != nil {
		return nil, err
	}
	return &suite{
		options: o, bounds: gpuBounds, engine: e, progress: progress,
		report: &report{dir: o.Out, progress: progress, soft: !o.onGPU()},
	}, nil
}

// run makes the checks that were asked for. Without the device it makes none.
func (s *suite) run(ctx context.Context) error {
	defer func() { _ = os.RemoveAll(s.repository("")) }() // large, and made of nothing but seeds and copies
	if err := s.environment(ctx); err != nil {
		return err
	}
	if err := s.engine.probe(s.repository("probe")); err != nil {
		s.report.judge("device", s.Device, err.Error(), false)
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.Limit, fmt.Errorf("--limit %v has passed", s.Limit))
	defer cancel()
	for _, c := range checks {
		if len(s.Only) > 0 && !slices.Contains(s.Only, c.name) {
			continue
		}
		start := time.Now()
		fmt.Fprintf(s.progress, "gpucheck: %s ...\n", c.name)
		if err := s.attempt(ctx, c); err != nil {
			s.report.judge(c.name, "", err.Error(), false)
		}
		fmt.Fprintf(s.progress, "gpucheck: %s took %v\n", c.name, time.Since(start).Round(time.Second))
	}
	return nil
}

// longest is how long one check may take, so that one that hangs leaves time for the others.
const longest = 3 * time.Minute

// attempt makes a check unless there is no time for it. The error says why it was not made, or was not made to its end.
func (s *suite) attempt(ctx context.Context, c check) error {
	if ctx.Err() != nil {
		return fmt.Errorf("not made: %w", context.Cause(ctx))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, longest, fmt.Errorf("it took longer than %v", longest))
	defer cancel()
	err := c.make(s, ctx)
	if err != nil && ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}

// folder returns where the results of a check go. It is made when something is written there.
func (s *suite) folder(name string) string { return filepath.Join(s.Out, name) }

// repository returns where a check puts models. They are gone when all checks are done.
func (s *suite) repository(name string) string { return filepath.Join(s.Out, "models", name) }
