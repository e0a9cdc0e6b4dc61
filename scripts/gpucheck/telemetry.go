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

// reading is a value that both the server and nvidia-smi tell of a GPU.
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

// telemetry compares what the server tells of the GPU under load with what nvidia-smi tells at about the same time: the medians of
// several pairs, a second apart.
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
	return s.compareTelemetry(ctx, v, 5, time.Second)
}

// pair is what the server and nvidia-smi told at about the same time, in the field's unit.
type pair struct{ server, smi float64 }

// compareTelemetry reads both so many times, each after a pause.
func (s *suite) compareTelemetry(ctx context.Context, v *server, times int, pause time.Duration) error {
	fields := make([]string, len(readings))
	for i := range readings {
		fields[i] = readings[i].field
	}
	pairs := make([][]pair, len(readings))
	missing := make([]string, len(readings)) // who does not tell a value
	oldest := 0.0
	for range times {
		if err := wait(ctx, pause); err != nil {
			return err
		}
		told, err := v.metrics(ctx)
		if err != nil {
			return err
		}
		id, err := told.label("weft_gpu_info", s.Device, "uuid")
		if err != nil {
			return err
		}
		values, err := querySMI(ctx, id, fields...)
		if errors.Is(err, errNoSMI) {
			s.report.skip("telemetry", err.Error())
			return nil
		}
		if err != nil {
			return err
		}
		age, err := told.value("weft_gpu_sample_age_seconds", "device", s.Device)
		if err != nil {
			return err
		}
		oldest = max(oldest, age)
		for i := range readings {
			r := &readings[i]
			smi, is := smiNumber(values[r.field])
			if !is {
				missing[i] = fmt.Sprintf("nvidia-smi says %q", values[r.field])
				continue
			}
			server, err := told.value(r.metric, "device", s.Device)
			if err != nil {
				return err
			}
			pairs[i] = append(pairs[i], pair{server / r.unit, smi})
		}
	}
	for i := range readings {
		s.reportReading(&readings[i], pairs[i], missing[i])
	}
	s.report.judge("telemetry: age of a sample", "≤ 1 s", fmt.Sprintf("%.2f s at most", oldest), oldest <= 1)
	return nil
}

func (s *suite) reportReading(r *reading, pairs []pair, missing string) {
	name := "telemetry: " + strings.TrimPrefix(r.metric, "weft_gpu_")
	if len(pairs) == 0 {
		s.report.skip(name, missing)
		return
	}
	server := median(pairs, func(p pair) float64 { return p.server })
	smi := median(pairs, func(p pair) float64 { return p.smi })
	within := r.absolute + r.relative*math.Abs(smi)
	s.report.judge(name, fmt.Sprintf("%.6g ± %.3g (%s)", smi, within, r.field), fmt.Sprintf("%.6g", server), math.Abs(server-smi) <= within)
}

func median(pairs []pair, of func(pair) float64) float64 {
	var values []float64
	for _, p := range pairs {
		values = append(values, of(p))
	}
	slices.Sort(values)
	return values[len(values)/2]
}
