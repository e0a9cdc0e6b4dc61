package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weftserve/weft/gpu"
	"github.com/weftserve/weft/tools/lab/harness"
)

// readings are the values that both the server and nvidia-smi report of a GPU.
var readings = []struct {
	metric, field string
	unit          float64 // of the field, in the metric's
	// How far they may be apart, in the field's unit and as a part of it: they are not read in the same moment.
	absolute, relative float64
}{
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

const (
	mega  = 1e6
	mebi  = 1 << 20
	cents = 0.01
)

// reasonFields are nvidia-smi's names of the reasons for a lower clock; older drivers know the second.
var reasonFields = []string{"clocks_event_reasons.active", "clocks_throttle_reasons.active"}

// telemetry compares the server's values of the GPU under load with nvidia-smi's values at about the same time: the
// medians of several pairs, half a second apart.
func (s *suite) telemetry(ctx context.Context) error {
	if !s.onGPU() {
		s.report.skip("telemetry", "there is no GPU")
		return nil
	}
	h, err := s.heavyModel()
	if err != nil {
		return err
	}
	repository := s.repository("telemetry")
	if _, err := s.placeHeavy(repository, "heavy", h, 1, h.layers); err != nil {
		return err
	}
	return s.serve(ctx, "telemetry", repository, func(v *server) error {
		stop := start(ctx, v.conns, h.load("heavy", 6))
		defer stop()
		return s.compareTelemetry(ctx, v, 10, time.Second/2)
	})
}

// observed holds what was reported of a reading, in the field's unit, and why nvidia-smi reported nothing.
type observed struct {
	server, smi []float64
	missing     error
}

// seenReasons are the reasons for a lower clock that the server or nvidia-smi reported, in several moments.
type seenReasons struct{ ever, always gpu.Reasons }

func (r *seenReasons) add(now gpu.Reasons) {
	r.ever |= now
	r.always &= now
}

// compareTelemetry reads both a number of times, each after a pause. A value that one of them lacks does not affect the
// others.
func (s *suite) compareTelemetry(ctx context.Context, v *server, times int, pause time.Duration) error {
	id, fields := s.smiName(ctx, v), slices.Clone(reasonFields)
	for _, r := range readings {
		fields = append(fields, r.field)
	}
	known, err := knownToSMI(ctx, id, fields)
	if errors.Is(err, errNoSMI) || errors.Is(err, errSMIHasNoParts) {
		s.report.skip("telemetry", err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	all, oldest := make([]observed, len(readings)), 0.0
	reasonField := reasonFields[0]
	if !slices.Contains(known, reasonField) {
		reasonField = reasonFields[1]
	}
	serverReasons, smiReasons := seenReasons{always: gpu.AllReasons}, seenReasons{always: gpu.AllReasons}
	var noReasons error
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
		age, err := told.Value("weft_gpu_sample_age_seconds", "device", s.Device)
		if err != nil {
			return err
		}
		oldest = max(oldest, age)
		for i, r := range readings {
			smi, err := values.number(r.field)
			if err != nil {
				all[i].missing = err
				continue
			}
			server, err := told.Value(r.metric, "device", s.Device)
			if err != nil {
				server = math.NaN() // which is like nothing
			}
			all[i].server, all[i].smi = append(all[i].server, server/r.unit), append(all[i].smi, smi)
		}
		reasons, err := values.reasons(reasonField)
		noReasons = cmp.Or(noReasons, err)
		serverReasons.add(reasonsOf(told, s.Device))
		smiReasons.add(reasons)
	}
	for i, r := range readings {
		name := "telemetry: " + strings.TrimPrefix(r.metric, "weft_gpu_")
		if len(all[i].smi) == 0 {
			s.report.skip(name, all[i].missing.Error())
			continue
		}
		server, smi := median(all[i].server), median(all[i].smi)
		within, measured := r.absolute+r.relative*math.Abs(smi), fmt.Sprintf("%.6g", server)
		if math.IsNaN(server) {
			measured = "the server does not tell it"
		}
		s.report.judge(name, fmt.Sprintf("%.6g ± %.3g (%s)", smi, within, r.field), measured,
			math.Abs(server-smi) <= within)
	}
	s.report.judge("telemetry: age of a sample", "≤ 1 s", fmt.Sprintf("%.2f s at most", oldest), oldest <= 1)
	const name = "telemetry: clock_event"
	if noReasons != nil {
		s.report.skip(name, noReasons.Error())
		return nil
	}
	// At a power limit the reasons come and go between the two: so a reason that one of them reports every time, the
	// other must report once.
	s.report.judge(name, fmt.Sprintf("always %v, ever %v (%s)", smiReasons.always, smiReasons.ever, reasonField),
		fmt.Sprintf("always %v, ever %v", serverReasons.always, serverReasons.ever),
		smiReasons.always&^serverReasons.ever == 0 && serverReasons.always&^smiReasons.ever == 0)
	return nil
}

// reasonsOf reads the present reasons of a device.
func reasonsOf(told harness.Metrics, device string) (now gpu.Reasons) {
	for _, m := range told["weft_gpu_clock_event"].GetMetric() {
		for r := gpu.Reasons(1); r <= gpu.AllReasons; r <<= 1 {
			is := harness.LabelOf(m, "device") == device && harness.LabelOf(m, "reason") == r.String()
			if is && m.GetGauge().GetValue() != 0 {
				now |= r
			}
		}
	}
	return now
}

// reasons reads the present reasons, which nvidia-smi writes as a set such as 0x0000000000000004.
func (v smiValues) reasons(field string) (gpu.Reasons, error) {
	return readSMI(v, field, func(value string) (gpu.Reasons, error) {
		bits, err := strconv.ParseUint(value, 0, 64)
		return gpu.Reasons(bits) & gpu.AllReasons, err
	})
}

// median returns the median of at least one value.
func median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
