package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// saturation gives the server more of one model than the device can do. It must come close to the throughput of a loop
// in this process with the same model and batches; the pauses are those of the scheduler's trace, in which the device
// has no batch.
func (s *suite) saturation(ctx context.Context) error {
	h, err := s.heavyModel()
	if err != nil {
		return err
	}
	repository, trace := s.repository("saturation"), filepath.Join(s.folder("saturation"), "trace.jsonl")
	path, err := s.placeHeavy(repository, "heavy", h, 1, h.layers)
	if err != nil {
		return err
	}
	before, err := s.engine.loop(path, h.rows, s.Span/3)
	if err != nil {
		return err
	}
	var out served
	if err := s.serve(ctx, "saturation", repository, func(v *server) (err error) {
		out, err = s.saturate(ctx, v, h)
		return err
	}, "--sched-trace", trace); err != nil {
		return err
	}
	after, err := s.engine.loop(path, h.rows, s.Span/3)
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
	s.reportSaturation(&u, &out, h, before, after)
	return nil
}

// served holds the server's results for its callers.
type served struct {
	perSecond float64 // rows
	busy      float64 // part of the time, according to GetSchedulerState
	fed       int     // looks at its queue that found a full batch waiting
	// nvidia-smi's answers in several moments, of saturationFields
	smi      [len(saturationFields)][]float64
	smiFault error // why nvidia-smi said nothing
}

var saturationFields = [...]string{"utilization.gpu", "clocks.sm", "power.draw"}

const looks = 10 // at the server while it is measured

// saturate loads the server for a time.
func (s *suite) saturate(ctx context.Context, v *server, h *heavy) (out served, err error) {
	l := h.load("heavy", 6)
	stop := start(ctx, v.conns, l)
	defer stop()
	if err := wait(ctx, s.Span/4); err != nil {
		return out, err
	}
	// nvidia-smi is asked before the server is measured: asking the driver may slow it.
	id := s.smiName(ctx, v)
	if !s.onGPU() {
		out.smiFault = errors.New("there is no GPU")
	}
	for range 5 {
		if err := wait(ctx, s.Span/50); err != nil {
			return out, err
		}
		if out.smiFault == nil {
			out.smiFault = out.askSMI(ctx, id)
		}
	}
	busy, _, err := s.look(ctx, v)
	if err != nil {
		return out, err
	}
	began, calls := time.Now(), l.calls.Load()
	still := busy
	for n := range looks {
		if err := wait(ctx, time.Until(began.Add(time.Duration(n+1)*s.Span/looks))); err != nil {
			return out, err
		}
		var waiting int
		if still, waiting, err = s.look(ctx, v); err != nil {
			return out, err
		}
		if waiting*h.requestRows() >= h.rows {
			out.fed++
		}
	}
	took := time.Since(began).Seconds()
	out.perSecond = float64(l.calls.Load()-calls) * float64(h.requestRows()) / took
	out.busy = (still - busy) / 1000 / took
	return out, l.err()
}

// look returns for how many milliseconds the device had at least one batch since the server started, and how many
// requests are waiting.
func (s *suite) look(ctx context.Context, v *server) (busyMs float64, waiting int, err error) {
	state, err := v.state(ctx)
	if err != nil {
		return 0, 0, err
	}
	for _, f := range state.GetFlows() {
		waiting += int(f.GetQueuedRequests())
	}
	for _, d := range state.GetDevices() {
		if d.GetName() == s.Device {
			return d.GetBusyMs(), waiting, nil
		}
	}
	return 0, 0, fmt.Errorf("the server's scheduler knows no device %s", s.Device)
}

// askSMI adds nvidia-smi's answer of this moment.
func (out *served) askSMI(ctx context.Context, id string) error {
	values, err := querySMI(ctx, id, saturationFields[:]...)
	if err != nil {
		return err
	}
	for i, field := range saturationFields {
		value, err := values.number(field)
		if err != nil {
			return err
		}
		out.smi[i] = append(out.smi[i], value)
	}
	return nil
}

func (s *suite) reportSaturation(u *usage, out *served, h *heavy, before, after pace) {
	b, r := &s.bounds, s.report
	best := max(before.perSecond, after.perSecond)
	perBatch := min(before.perRun, after.perRun)
	r.timed("saturation: batch", fmt.Sprintf("≥ %v, of %d rows", b.batch, h.rows),
		fmt.Sprintf("%v alone; %d batches of %.1f rows", perBatch.Round(10*time.Microsecond), u.executions,
			u.batchRows()),
		perBatch >= b.batch && u.batchRows() >= b.full*float64(h.rows))
	// Where this fails, the rows below measure the callers, not the server.
	r.timed("saturation: a full batch was waiting", "each time", fmt.Sprintf("%d of %d times", out.fed, looks),
		out.fed == looks)
	r.timed("saturation: device busy", fmt.Sprintf("≥ %g %%", 100*b.busy),
		fmt.Sprintf("%.2f %% by the trace, %.2f %% by GetSchedulerState", 100*u.busy, 100*out.busy), u.busy >= b.busy &&
			out.busy >= b.busy)
	// The driver's own account knows of no batches.
	if name := "saturation: device busy by nvidia-smi"; out.smiFault != nil {
		r.skip(name, out.smiFault.Error())
	} else {
		used := median(out.smi[0])
		r.timed(name, fmt.Sprintf("≥ %g %%", 100*b.busy), fmt.Sprintf("%g %%, SM clock %g MHz, %g W (medians of %d)",
			used, median(out.smi[1]), median(out.smi[2]), len(out.smi[0])), used >= 100*b.busy)
	}
	// The time of a batch beyond that of the slower loop is unused time of the device.
	perServed := time.Duration(u.batchRows() / out.perSecond * float64(time.Second))
	beyond := perServed - max(before.perRun, after.perRun)
	r.timed("saturation: time per batch beyond the loop's", fmt.Sprintf("< %v", b.gap),
		fmt.Sprintf("%v; the loops themselves differ by %v", beyond.Round(100*time.Nanosecond),
			(before.perRun-after.perRun).Abs().Round(100*time.Nanosecond)),
		beyond < b.gap)
	gap, longest := u.pause(0.99), u.pause(1)
	r.timed("saturation: no batch in flight before a batch, 99th percentile", fmt.Sprintf("< %v", b.gap),
		fmt.Sprintf("%v; in all %d times, longest %v", gap.Round(100*time.Nanosecond), len(u.gaps),
			longest.Round(100*time.Nanosecond)), gap < b.gap)
	r.timed("saturation: throughput", fmt.Sprintf("≥ %g %% of a loop", 100*b.throughput),
		fmt.Sprintf("%.1f %%: %.0f of %.0f rows/s", 100*out.perSecond/best, out.perSecond, best),
		out.perSecond >= b.throughput*best)
}
