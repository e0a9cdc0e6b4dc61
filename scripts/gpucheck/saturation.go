package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// saturation gives the server more of one model than the device can do. What it must reach is what a loop in this process does with the
// same model and batches; the pauses are those of the scheduler's trace, in which the device has no batch.
func (s *suite) saturation(ctx context.Context) error {
	dir := s.folder("saturation")
	h, err := s.heavyModel()
	if err != nil {
		return err
	}
	repository := s.repository("saturation")
	path, err := h.place(repository, "heavy", s.provider(), 1, h.layers)
	if err != nil {
		return err
	}
	before, err := s.engine.loop(path, h.rows, 1, s.Span/3)
	if err != nil {
		return err
	}
	trace := filepath.Join(dir, "trace.jsonl")
	served, err := s.saturate(ctx, h, dir, repository, trace)
	if err != nil {
		return err
	}
	after, err := s.engine.loop(path, h.rows, 1, s.Span/3)
	if err != nil {
		return err
	}
	twice, err := s.engine.loop(path, h.rows, 2, s.Span/3)
	if err != nil {
		return err
	}
	executions, err := readTrace(trace, s.Device)
	if err != nil {
		return err
	}
	// The end of the load is the end of the last execution; beginning and end are left out.
	to := executions[len(executions)-1].end - s.Span/20
	u := usageBetween(executions, to-s.Span*9/10, to)
	s.reportSaturation(&u, served, before, after, twice)
	return nil
}

// served is what the server did for its callers.
type served struct {
	perSecond float64 // rows
	busy      float64 // part of the time, as GetSchedulerState tells it
	smi       string  // what nvidia-smi says of it
}

// saturate loads the server for a time.
func (s *suite) saturate(ctx context.Context, h *heavy, dir, repository, trace string) (out served, err error) {
	v, err := s.serve(ctx, dir, repository, "--sched-trace", trace)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, v.stop()) }()
	l := &load{request: h.request("heavy"), callers: h.callersOf(6)}
	stop := start(ctx, v.conns, l)
	defer stop()
	if err := wait(ctx, s.Span/4); err != nil {
		return out, err
	}
	began, calls := time.Now(), l.calls.Load()
	busy, err := v.busy(ctx, s.Device)
	if err != nil {
		return out, err
	}
	if err := wait(ctx, s.Span/2); err != nil {
		return out, err
	}
	out.smi = s.smiBusy(ctx)
	if err := wait(ctx, s.Span/2); err != nil {
		return out, err
	}
	still, err := v.busy(ctx, s.Device)
	if err != nil {
		return out, err
	}
	took := time.Since(began)
	out.perSecond = float64(l.calls.Load()-calls) * float64(h.requestRows()) / took.Seconds()
	out.busy = float64(still-busy) / float64(took)
	return out, l.err()
}

// busy is how long a device had at least one batch since the server started.
func (v *server) busy(ctx context.Context, device string) (time.Duration, error) {
	state, err := v.state(ctx)
	if err != nil {
		return 0, err
	}
	for _, d := range state.GetDevices() {
		if d.GetName() == device {
			return time.Duration(d.GetBusyMs() * float64(time.Millisecond)), nil
		}
	}
	return 0, fmt.Errorf("the server's scheduler knows no device %s", device)
}

// smiBusy is the utilisation that nvidia-smi tells, "" where there is none.
func (s *suite) smiBusy(ctx context.Context) string {
	if !s.onGPU() {
		return ""
	}
	values, err := querySMI(ctx, s.Device, "utilization.gpu", "clocks.sm", "power.draw")
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s %%, SM clock %s MHz, %s W", values["utilization.gpu"], values["clocks.sm"], values["power.draw"])
}

func (s *suite) reportSaturation(u *usage, out served, before, after, twice pace) {
	b, r := &s.bounds, s.report
	best := max(before.perSecond, after.perSecond)
	perBatch := min(before.perRun, after.perRun)
	r.timed("saturation: batch", fmt.Sprintf("≥ %v", b.batch),
		fmt.Sprintf("%v alone; %d batches of %.1f rows", perBatch.Round(10*time.Microsecond), u.executions, u.batchRows()), perBatch >= b.batch)
	r.timed("saturation: device busy", fmt.Sprintf("≥ %g %%", 100*b.busy),
		fmt.Sprintf("%.2f %% by the trace, %.2f %% by GetSchedulerState", 100*u.busy, 100*out.busy), u.busy >= b.busy && out.busy >= b.busy)
	// What a batch takes beyond the slower of the loops is time of the device that nobody used.
	perServed := time.Duration(u.batchRows() / out.perSecond * float64(time.Second))
	beyond := perServed - max(before.perRun, after.perRun)
	r.timed("saturation: time per batch beyond the loop's", fmt.Sprintf("< %v", b.gap),
		fmt.Sprintf("%v; the loops themselves differ by %v", beyond.Round(100*time.Nanosecond), (before.perRun-after.perRun).Abs().Round(100*time.Nanosecond)),
		beyond < b.gap)
	gap, longest := quantile(u.gaps, 0.99), quantile(u.gaps, 1)
	r.timed("saturation: no batch in flight, 99th percentile", fmt.Sprintf("< %v", b.gap),
		fmt.Sprintf("%v of %d; longest %v", gap.Round(100*time.Nanosecond), len(u.gaps), longest.Round(100*time.Nanosecond)), gap < b.gap)
	r.timed("saturation: throughput", fmt.Sprintf("≥ %g %% of a loop", 100*b.throughput),
		fmt.Sprintf("%.1f %%: %.0f of %.0f rows/s", 100*out.perSecond/best, out.perSecond, best), out.perSecond >= b.throughput*best)
	r.tell("saturation: two loops side by side", fmt.Sprintf("%.1f %% of one", 100*twice.perSecond/best))
	if out.smi != "" {
		r.tell("saturation: nvidia-smi", out.smi)
	}
}
