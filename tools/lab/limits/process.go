package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/weftserve/weft/tools/lab/harness"
)

// server is a process that answers.
type server struct {
	*harness.Server

	name string // what it is called in the tables
}

// serve starts a server on some processors, with its log in a folder, and returns when it is ready.
func serve(ctx context.Context, name, folder string, cpus []int, program string, args ...string) (*server, error) {
	log := filepath.Join(folder, strings.ReplaceAll(name, " ", "-")+".log")
	s, err := harness.Start(ctx, harness.Options{Program: program, Args: args, Log: log, CPUs: cpus})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &server{s, name}, nil
}

// memoryOf returns the megabytes that a family of processes holds: what each has of its own, and once what they share.
// Mapped files, such as programs and libraries, do not count.
func memoryOf(family []procfs.Proc) float64 {
	own, shared := uint64(0), uint64(0)
	for _, p := range family {
		status, _ := p.NewStatus() // 0 of one that has ended
		own += status.RssAnon
		shared = max(shared, status.RssShmem)
	}
	return float64(own+shared) / (1 << 20)
}
