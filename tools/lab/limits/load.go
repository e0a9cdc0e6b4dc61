package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weftserve/weft/internal/loadgen"
	"github.com/weftserve/weft/tools/lab/affinity"
	"github.com/weftserve/weft/tools/lab/harness"
)

// load is what a run of `weft bench` asks of a server.
type load struct {
	model    string
	callers  int     // closed loop, or
	rate     float64 // open loop
	rows     int     // of each request
	constant bool    // arrivals of the open loop, which are Poisson otherwise
	deadline time.Duration
	patience time.Duration
	retries  int
	span     time.Duration // 0: the effort's
}

func (l *load) args() []string {
	args := []string{
		"--model", l.model, "--deadline", l.deadline.String(), "--retries", strconv.Itoa(l.retries),
		"--rows", strconv.Itoa(max(l.rows, 1)),
	}
	if l.patience > 0 {
		args = append(args, "--patience", l.patience.String())
	}
	if l.callers > 0 {
		return append(args, "--callers", strconv.Itoa(l.callers))
	}
	if l.constant {
		args = append(args, "--arrivals", "constant")
	}
	return append(args, "--rate", strconv.FormatFloat(l.rate, 'f', 3, 64))
}

// safety is a deadline that no request of a server that works will miss.
const safety = 10 * time.Second

// measured is what a run showed.
type measured struct {
	*loadgen.StreamReport

	began  time.Time // its warm-up
	warmup time.Duration
	span   float64 // seconds
	cpuUs  float64 // processor time of the server for each request that ended
	memory float64 // of the server, at most, in MB
	others float64 // part of the machine that other programs used
}

// bench puts a load on a server.
func (r *round) bench(s *server, l load) (m measured, err error) {
	span := r.effort.span
	if l.span > 0 {
		span = l.span
	}
	args := append([]string{
		"bench", "--json", "-", "--target", s.GRPC, "--server-pid", strconv.Itoa(s.PID()),
		"--warmup", r.effort.warmup.String(), "--duration", span.String(),
	}, l.args()...)
	cmd := exec.CommandContext(r.ctx, r.Weft, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := affinity.Start(r.place.client, affinity.Foremost, cmd.Start); err != nil {
		return m, err
	}
	before := usageNow()
	most := watchMemory(r.ctx, s.PID())
	err = cmd.Wait()
	m.memory, m.others = most(), others(before, usageNow())
	if err != nil {
		return m, fmt.Errorf("%s: weft %v: %w: %s", s.name, args, err, errs.String())
	}
	var report loadgen.Report
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		return m, err
	}
	m.StreamReport, m.began, m.span = &report.Streams[0], report.StartedAt, report.DurationS
	m.warmup = r.effort.warmup
	for _, used := range []loadgen.CPUTime{report.CPU.Server, report.CPU.Children} {
		m.cpuUs += used.UserUs + used.SystemUs
	}
	r.book.disturb(r.place.name, m.others)
	fmt.Fprintf(r.progress, "round %d, %s, %s, %s: %s\n", r.number+1, r.place.name, r.scene, s.name, m)
	return m, nil
}

// watchMemory returns a function that ends the watch, and returns the most that the process held. It looks for children
// once only: to look through all processes takes milliseconds of a processor that the client may need.
func watchMemory(ctx context.Context, pid int) func() float64 {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan float64)
	all := harness.Family(pid)
	go func() {
		most := 0.0
		for now := time.NewTicker(500 * time.Millisecond); ; {
			most = max(most, memoryOf(all))
			select {
			case <-now.C:
			case <-ctx.Done():
				now.Stop()
				ended <- most
				return
			}
		}
	}()
	return func() float64 {
		cancel()
		return <-ended
	}
}

// String says the most important of it.
func (m measured) String() string {
	text := fmt.Sprintf("%.0f answers/s, %.1f us of processor time, p50 %.3f ms, p99 %.3f ms, batch %.1f, %.0f MB, "+
		"others %.0f %%",
		m.AnswersPS, m.cpuUs, m.LatencyMs.P50, m.LatencyMs.P99, m.Server.BatchRows, m.memory, 100*m.others)
	if m.LagMs != nil {
		text += fmt.Sprintf(", %.0f in time/s, sent late p99 %.1f ms", m.GoodputPS, m.LagMs.P99)
	}
	codes := make([]string, 0, len(m.Codes))
	for code, n := range m.Codes {
		if code != "OK" {
			codes = append(codes, fmt.Sprintf(", %s %d", code, n))
		}
	}
	slices.Sort(codes)
	return text + strings.Join(codes, "")
}

// most lag of a client whose figures count.
const mostLagMs = 5

// late reports whether the client was late itself, so that the run says nothing of the server.
func (m measured) late() bool { return m.LagMs != nil && m.LagMs.P99 > mostLagMs }
