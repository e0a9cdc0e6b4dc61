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
	if twice, err := s.engine.loop(path, h.rows, 2, s.Span/3); err != nil {
		s.report.tell("saturation: two loops side by side", err.Error())
	} else {
		s.report.tell("saturation: two loops side by side",
			fmt.Sprintf("%.1f %% of one", 100*twice.perSecond/max(before.perSecond, after.perSecond)))
	}
	executions, err := readTrace(trace, s.Device)
	if err != nil {
		return err
	}
	// The end of the load is the end of the last execution; beginning and end are left out.
	to := executions[len(executions)-1].end - s.Span/20
	u := usageBetween(executions, to-s.Span*9/10, to)
	s.reportSaturation(&u, &served, h, before, after)
	return nil
}

// served holds the server's results for its callers.
type served struct {
	perSecond float64 // rows
	busy      float64 // part of the time, according to GetSchedulerState
	looks     int
	fed       int // of the looks at its queue: those that found a full batch waiting
	smi       []smiLook
	smiFault  error // why nvidia-smi said nothing
}

// smiLook is nvidia-smi's answer in one moment.
type smiLook struct{ utilisation, clock, power float64 }

const (
	looks    = 10 // at the server while it is measured
	smiLooks = 5  // at the device, before that: asking the driver may slow the server
)

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
	id := s.smiName(ctx, v)
	for range smiLooks {
		if err := wait(ctx, s.Span/50); err != nil {
			return out, err
		}
		s.lookAtDevice(ctx, id, &out)
	}
	busy, err := v.busy(ctx, s.Device)
	if err != nil {
		return out, err
	}
	began, calls := time.Now(), l.calls.Load()
	for n := range looks {
		if err := wait(ctx, time.Until(began.Add(time.Duration(n+1)*s.Span/looks))); err != nil {
			return out, err
		}
		if err := s.look(ctx, v, h, &out); err != nil {
			return out, err
		}
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

// busy returns how long a device had at least one batch since the server started.
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

// look asks whether the callers keep the queue filled.
func (s *suite) look(ctx context.Context, v *server, h *heavy, out *served) error {
	state, err := v.state(ctx)
	if err != nil {
		return err
	}
	waiting := 0
	for _, f := range state.GetFlows() {
		waiting += int(f.GetQueuedRequests())
	}
	out.looks++
	if waiting*h.requestRows() >= h.rows {
		out.fed++
	}
	return nil
}

// smiName returns nvidia-smi's name of the device: its UUID, or where the server does not know that, its number.
func (s *suite) smiName(ctx context.Context, v *server) string {
	told, err := v.metrics(ctx)
	if err != nil {
		return s.Device
	}
	id, err := told.label("weft_gpu_info", s.Device, "uuid")
	if err != nil {
		return s.Device
	}
	return id
}

// lookAtDevice asks nvidia-smi, until that fails.
func (s *suite) lookAtDevice(ctx context.Context, id string, out *served) {
	if !s.onGPU() || out.smiFault != nil {
		return
	}
	fields := []string{"utilization.gpu", "clocks.sm", "power.draw"}
	values, err := querySMI(ctx, id, fields...)
	if err != nil {
		out.smiFault = err
		return
	}
	var one smiLook
	for i, to := range []*float64{&one.utilisation, &one.clock, &one.power} {
		value, is := smiNumber(values[fields[i]])
		if *to = value; !is {
			out.smiFault = fmt.Errorf("nvidia-smi says %q of %s", values[fields[i]], fields[i])
			return
		}
	}
	out.smi = append(out.smi, one)
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
	r.timed("saturation: a full batch was waiting", "each time", fmt.Sprintf("%d of %d times", out.fed, out.looks),
		out.fed == out.looks)
	r.timed("saturation: device busy", fmt.Sprintf("≥ %g %%", 100*b.busy),
		fmt.Sprintf("%.2f %% by the trace, %.2f %% by GetSchedulerState", 100*u.busy, 100*out.busy), u.busy >= b.busy &&
			out.busy >= b.busy)
	s.reportSMI(out)
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

// reportSMI reports how busy the device was by the driver's own account, which knows of no batches.
func (s *suite) reportSMI(out *served) {
	const name = "saturation: device busy by nvidia-smi"
	if !s.onGPU() || out.smiFault != nil {
		why := "there is no GPU"
		if out.smiFault != nil {
			why = out.smiFault.Error()
		}
		s.report.skip(name, why)
		return
	}
	used := median(out.smi, func(l smiLook) float64 { return l.utilisation })
	s.report.timed(name, fmt.Sprintf("≥ %g %%", 100*s.bounds.busy),
		fmt.Sprintf("%g %%, SM clock %g MHz, %g W (medians of %d)", used,
			median(out.smi, func(l smiLook) float64 { return l.clock }),
			median(out.smi, func(l smiLook) float64 { return l.power }), len(out.smi)),
		used >= 100*s.bounds.busy)
}
