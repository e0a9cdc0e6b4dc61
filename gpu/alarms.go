package gpu

import "time"

// calm is for how long a reason must have been gone to be over: they come and go many times a minute.
const calm = time.Minute

// alarms knows which of the reasons in Throttled the log mentioned. In the zero value it mentioned none.
type alarms struct {
	told Reasons                     // and not that they are over
	seen [len(reasonNames)]time.Time // when each was last there
}

// hear takes in the present reasons, and returns which begin and which are over. Each begins once a minute at
// most.
func (a *alarms) hear(now Reasons) (begun, over Reasons) {
	for i := range reasonNames {
		reason := Reasons(1 << i)
		switch {
		case now&Throttled&reason != 0:
			a.seen[i] = time.Now()
			begun |= reason &^ a.told
		case time.Since(a.seen[i]) >= calm:
			over |= reason & a.told
		}
	}
	a.told = a.told&^over | begun
	return begun, over
}

// tellAlarms logs the reasons in Throttled that begin, and the ones that are over, with the other known values of the
// device. The driver's own measures against power and heat are in the metrics alone.
func (w *watched) tellAlarms() {
	if !w.next.Has(EventReasons) {
		return
	}
	begun, over := w.alarms.hear(w.next.Reasons)
	if begun != 0 {
		w.sampler.log.Warn("GPU clock cut by the hardware", append([]any{
			"event", "gpu_clock_cut", "device", w.Name, "reasons", begun.String(),
		}, w.next.values()...)...)
	}
	if over != 0 {
		w.sampler.log.Info("GPU clock not cut for a minute", append([]any{
			"event", "gpu_clock_restored", "device", w.Name, "reasons", over.String(),
		}, w.next.values()...)...)
	}
}

// values lists for the log the known values of clock, power and temperature.
func (s *Sample) values() []any {
	var values []any
	for _, v := range []struct {
		of    Quantity
		name  string
		value any
	}{
		{Clock, "clock_mhz", s.Clock},
		{MaxClock, "max_clock_mhz", s.MaxClock},
		{Power, "power_watts", s.Power},
		{PowerLimit, "power_limit_watts", s.PowerLimit},
		{Temperature, "temperature_celsius", s.Temperature},
	} {
		if s.Has(v.of) {
			values = append(values, v.name, v.value)
		}
	}
	return values
}
