package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/weftserve/weft/gpu"
)

// reasonFields are nvidia-smi's names of the reasons for a lower clock; older drivers know the second.
var reasonFields = []string{"clocks_event_reasons.active", "clocks_throttle_reasons.active"}

// seenReasons are the reasons for a lower clock that the server or nvidia-smi reported, in several moments.
type seenReasons struct{ ever, always gpu.Reasons }

func (s *seenReasons) add(now gpu.Reasons, first bool) {
	s.ever |= now
	if s.always &= now; first {
		s.always = now
	}
}

// reasonsOf reads the present reasons of a device.
func (p page) reasonsOf(device string) gpu.Reasons {
	var now gpu.Reasons
	for _, m := range p["weft_gpu_clock_event"].GetMetric() {
		if labelOf(m, "device") != device || m.GetGauge().GetValue() == 0 {
			continue
		}
		for r := gpu.Reasons(1); r <= gpu.AllReasons; r <<= 1 {
			if labelOf(m, "reason") == r.String() {
				now |= r
			}
		}
	}
	return now
}

// smiReasons reads a set of reasons as nvidia-smi writes it, such as 0x0000000000000004.
func smiReasons(value string) (gpu.Reasons, bool) {
	bits, err := strconv.ParseUint(value, 0, 64)
	return gpu.Reasons(bits) & gpu.AllReasons, err == nil
}

// compareReasons asks both a number of times, each after a pause. At a power limit the reasons come and go between the
// two: so a reason that one of them reports every time, the other must report once.
func (s *suite) compareReasons(ctx context.Context, v *server, id string, times int, pause func() error) error {
	const name = "telemetry: clock_event"
	fields, err := knownToSMI(ctx, id, reasonFields)
	if err != nil {
		s.report.skip(name, err.Error())
		return nil
	}
	var server, smi seenReasons
	for n := range times {
		if err := pause(); err != nil {
			return err
		}
		told, err := v.metrics(ctx)
		if err != nil {
			return err
		}
		values, err := querySMI(ctx, id, fields[0])
		if err != nil {
			return err
		}
		reasons, is := smiReasons(values[fields[0]])
		if !is {
			s.report.skip(name, fmt.Sprintf("nvidia-smi says %q", values[fields[0]]))
			return nil
		}
		server.add(told.reasonsOf(s.Device), n == 0)
		smi.add(reasons, n == 0)
	}
	s.report.judge(name, fmt.Sprintf("always %v, ever %v (%s)", smi.always, smi.ever, fields[0]),
		fmt.Sprintf("always %v, ever %v", server.always, server.ever),
		smi.always&^server.ever == 0 && server.always&^smi.ever == 0)
	return nil
}
