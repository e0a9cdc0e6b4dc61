package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// reading is a value that both the server and nvidia-smi report of a GPU.
type reading struct {
	metric, field string
	unit          float64 // of the field, in the metric's
	// How far they may be apart, in the field's unit and as a part of it: they are not read in the same moment.
	absolute, relative float64
}

const (
	mega  = 1e6
	mebi  = 1 << 20
	cents = 0.01
)

var readings = []reading{
	{"weft_gpu_clock_hertz", "clocks.sm", mega, 30, 0.03},
	{"weft_gpu_clock_max_hertz", "clocks.max.sm", mega, 0, 0},
	{"weft_gpu_memory_total_bytes", "memory.total", mebi, 1, 0},
	{"weft_gpu_memory_used_bytes", "memory.used", mebi, 64, 0.01},
	{"weft_gpu_memory_free_bytes", "memory.free", mebi, 64, 0.01},
	{"weft_gpu_utilization_ratio", "utilization.gpu", cents, 10, 0},
	{"weft_gpu_power_watts", "power.draw", 1, 15, 0.1},
	{"weft_gpu_power_limit_watts", "enforced.power.limit", 1, 1, 0},
	{"weft_gpu_temperature_celsius", "temperature.gpu", 1, 3, 0},
	{"weft_gpu_ecc_errors_total", "ecc.errors.uncorrected.volatile.total", 1, 0, 0},
}

// telemetry compares the server's values of the GPU under load with nvidia-smi's values at about the same time: the
// medians of several pairs, half a second apart.
func (s *suite) telemetry(ctx context.Context) (err error) {
	if !s.onGPU() {
		s.report.skip("telemetry", "there is no GPU")
		return nil
	}
	h, err := s.heavyModel()
	if err != nil {
		return err
	}
	repository := s.repository("telemetry")
	if _, err := h.place(repository, "heavy", s.provider(), 1, h.layers); err != nil {
		return err
	}
	v, err := s.serve(ctx, s.folder("telemetry"), repository)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.stop()) }()
	stop := start(ctx, v.conns, &load{request: h.request("heavy"), callers: h.callersOf(6)})
	defer stop()
	return s.compareTelemetry(ctx, v, 10, time.Second/2)
}

// pair holds the values of the server and of nvidia-smi at about the same time, in the field's unit.
type pair struct{ server, smi float64 }

// observed holds the reported values of a reading.
type observed struct {
	pairs   []pair
	missing string // which of them does not report the value
}

// compareTelemetry reads both a number of times, each after a pause. A value that one of them lacks does not affect the
// others.
func (s *suite) compareTelemetry(ctx context.Context, v *server, times int, pause time.Duration) error {
	first, err := v.metrics(ctx)
	if err != nil {
		return err
	}
	id, err := first.label("weft_gpu_info", s.Device, "uuid")
	if err != nil {
		return err
	}
	fields := make([]string, len(readings))
	for i := range readings {
		fields[i] = readings[i].field
	}
	known, err := knownToSMI(ctx, id, fields)
	if errors.Is(err, errNoSMI) || errors.Is(err, errSMIHasNoParts) {
		s.report.skip("telemetry", err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	all := make([]observed, len(readings))
	oldest := 0.0
	for range times {
		if err := wait(ctx, pause); err != nil {
			return err
		}
		told, err := v.metrics(ctx)
		if err != nil {
			return err
		}
		values, err := querySMI(ctx, id, known...)
		if err != nil {
			return err
		}
		age, err := told.value("weft_gpu_sample_age_seconds", "device", s.Device)
		if err != nil {
			return err
		}
		oldest = max(oldest, age)
		for i := range readings {
			all[i].add(&readings[i], told, s.Device, values)
		}
	}
	for i := range readings {
		s.reportReading(&readings[i], &all[i])
	}
	s.report.judge("telemetry: age of a sample", "≤ 1 s", fmt.Sprintf("%.2f s at most", oldest), oldest <= 1)
	return s.compareReasons(ctx, v, id, times, func() error { return wait(ctx, pause) })
}

// add adds the values of one moment.
func (o *observed) add(r *reading, told page, device string, values map[string]string) {
	server, err := told.value(r.metric, "device", device)
	value, asked := values[r.field]
	smi, is := smiNumber(value)
	switch {
	case !asked:
		o.missing = "nvidia-smi does not know " + r.field
	case !is:
		o.missing = fmt.Sprintf("nvidia-smi says %q", value)
	case err != nil:
		o.pairs = append(o.pairs, pair{math.NaN(), smi}) // which is like nothing
	default:
		o.pairs = append(o.pairs, pair{server / r.unit, smi})
	}
}

func (s *suite) reportReading(r *reading, o *observed) {
	name := "telemetry: " + strings.TrimPrefix(r.metric, "weft_gpu_")
	if len(o.pairs) == 0 {
		s.report.skip(name, o.missing)
		return
	}
	server := median(o.pairs, func(p pair) float64 { return p.server })
	smi := median(o.pairs, func(p pair) float64 { return p.smi })
	within := r.absolute + r.relative*math.Abs(smi)
	measured := fmt.Sprintf("%.6g", server)
	if math.IsNaN(server) {
		measured = "the server does not tell it"
	}
	s.report.judge(name, fmt.Sprintf("%.6g ± %.3g (%s)", smi, within, r.field), measured,
		math.Abs(server-smi) <= within)
}

// median returns the median of at least one element.
func median[T any](all []T, of func(T) float64) float64 {
	var values []float64
	for _, one := range all {
		values = append(values, of(one))
	}
	slices.Sort(values)
	return values[len(values)/2]
}
