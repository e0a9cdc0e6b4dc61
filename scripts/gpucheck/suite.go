package main

import (
	"context"
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

// bounds are what is asked of a GPU.
type bounds struct {
	difference     float64       // of an answer from the CPU's, as a part of the output's largest magnitude
	halfDifference float64       // the same of fp16 and bf16, whose neighbours are farther apart than that
	batch          time.Duration // least time of a batch that the next three hold for
	busy           float64       // least part of the time in which the device has a batch
	gap            time.Duration // 99 of 100 pauses between batches are shorter
	throughput     float64       // least part of what a loop in one process does
	share          float64       // greatest deviation from the ratio of the weights
	graphHits      float64       // least part of the executions that replay a captured graph
}

var gpuBounds = bounds{
	difference: 1e-3, halfDifference: 5e-3,
	batch: 5 * time.Millisecond, busy: 0.98, gap: 50 * time.Microsecond, throughput: 0.95,
	share: 0.02, graphHits: 0.9,
}

// check is one check: it adds rows to the report. An error is a check that could not be made.
type check struct {
	name string
	make func(*suite, context.Context) error
}

func checks() []check {
	return []check{
		{"correctness", (*suite).correctness},
		{"saturation", (*suite).saturation},
		{"weights", (*suite).weights},
		{"policy", (*suite).policy},
		{"memory", (*suite).memory},
		{"telemetry", (*suite).telemetry},
	}
}

func checkNames() []string {
	var names []string
	for _, c := range checks() {
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
		report: &report{dir: o.Out, soft: !o.onGPU()},
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
	for _, c := range checks() {
		if len(s.Only) > 0 && !slices.Contains(s.Only, c.name) {
			continue
		}
		start := time.Now()
		fmt.Fprintf(s.progress, "gpucheck: %s ...", c.name)
		if err := c.make(s, ctx); err != nil {
			s.report.judge(c.name, "", err.Error(), false)
		}
		fmt.Fprintf(s.progress, " %v\n", time.Since(start).Round(time.Second))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// folder is where the results of a check go. It is made when something is written there.
func (s *suite) folder(name string) string { return filepath.Join(s.Out, name) }

// repository is where a check puts models. They are gone when all checks are done.
func (s *suite) repository(name string) string { return filepath.Join(s.Out, "models", name) }
