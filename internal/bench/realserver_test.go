package bench

import (
	"testing"
	"time"
)

// These benchmarks take real time, seconds each, and have noise accordingly: other work on the machine delays the
// synthetic device's timers and the client, whose own delay is lag-p99-ms. The same scenes are tests in virtual time,
// where that is possible.

// report writes the numbers that are of interest in every scene.
func (p *played) report(b *testing.B, of calls) {
	b.Helper()
	b.ReportMetric(0, "ns/op") // the length of the scene says nothing
	b.ReportMetric(ms(of.quantile(0.5)), "p50-ms")
	b.ReportMetric(ms(of.quantile(0.99)), "p99-ms")
	b.ReportMetric(ms(of.lag()), "lag-p99-ms")
	b.ReportMetric(p.rowsPerBatch, "rows/batch")
	b.ReportMetric(100*p.wasted, "%late-device-time")
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// alone is calls of the standard model and of nothing else.
func alone(rate float64, span time.Duration) *scene {
	return &scene{
		models: map[string]string{"standard": standard},
		loads:  []load{{model: "standard", course: steady(rate, span), limit: limit, seed: 1}},
	}
}

// BenchmarkRealServerSaturated calls the standard model 1.8 times as often as it can answer. %capacity is how many
// answers came in time and before the last call, as a part of what full batches would give.
func BenchmarkRealServerSaturated(b *testing.B) {
	const span = 10 * time.Second
	for b.Loop() {
		p := alone(1500, span).overGRPC(b)
		p.report(b, p.calls[0])
		b.ReportMetric(100*float64(p.calls[0].by(span, limit))/(capacity*span.Seconds()), "%capacity")
	}
}

// simulated is the median latency of the standard model in the simulator (tools/lab/sim), with the arrivals of
// BenchmarkRealServerHalfLoaded.
const simulated = 50.902746

// BenchmarkRealServerHalfLoaded calls the standard model at about half of its capacity. vs-sim is the median latency
// over that of the simulator with the same arrivals.
func BenchmarkRealServerHalfLoaded(b *testing.B) {
	for b.Loop() {
		p := alone(400, 10*time.Second).overGRPC(b)
		p.report(b, p.calls[0])
		b.ReportMetric(simulated, "sim-p50-ms")
		b.ReportMetric(ms(p.calls[0].quantile(0.5))/simulated, "vs-sim")
	}
}

// BenchmarkRealServerImpatient saturates the standard model while one more caller of it wants 50 answers a second, each
// within 1 ms. others-kept is how many calls of the others are answered in time, divided by their number next to a
// caller without a target.
func BenchmarkRealServerImpatient(b *testing.B) {
	for b.Loop() {
		caller := load{model: "standard", course: steady(50, 6*time.Second), limit: limit, seed: 2}
		patient := saturated(standard, caller, 6*time.Second).overGRPC(b)
		caller.target = time.Millisecond
		impatient := saturated(standard, caller, 6*time.Second).overGRPC(b)
		impatient.report(b, impatient.calls[0])
		b.ReportMetric(float64(impatient.calls[0].within(limit))/float64(patient.calls[0].within(limit)), "others-kept")
	}
}

// BenchmarkRealServerSafetyDeadlines saturates the standard model; every tenth call has a deadline of half a minute.
// safe-p50-ms is how long these take. %capacity counts the answers to both.
func BenchmarkRealServerSafetyDeadlines(b *testing.B) {
	const span = 8 * time.Second
	for b.Loop() {
		p := mixed(1500, 0.1, span).overGRPC(b)
		p.report(b, p.calls[0])
		b.ReportMetric(ms(p.calls[1].quantile(0.5)), "safe-p50-ms")
		answers := p.calls[0].by(span, limit) + p.calls[1].by(span, safety)
		b.ReportMetric(100*float64(answers)/(capacity*span.Seconds()), "%capacity")
	}
}

// BenchmarkLightBesideHeavy: %on-time is of the light model's calls, within 20 ms; %on-time-inside leaves out the way
// to the server and back, for which client and server compete.
func BenchmarkLightBesideHeavy(b *testing.B) {
	for b.Loop() {
		p := beside(10 * time.Second).overGRPC(b)
		p.report(b, p.calls[0])
		b.ReportMetric(100*p.calls[0].share(lightTarget), "%on-time")
		b.ReportMetric(100-100*float64(p.overdue)/float64(len(p.calls[0])), "%on-time-inside")
	}
}

// BenchmarkRecoveryFromOverload floods a model for ten seconds, one with a fifth of the standard model's capacity so
// that the client keeps up. %on-time is of the calls that come later than one target after the flood.
func BenchmarkRecoveryFromOverload(b *testing.B) {
	small := curve(20*time.Millisecond, 5*time.Millisecond, "max_batch_size: 20, max_batch_cost: 120ms")
	for b.Loop() {
		p := flood(small, capacity/5).overGRPC(b)
		p.report(b, p.calls[0])
		b.ReportMetric(100*p.recovered().share(limit), "%on-time")
		b.ReportMetric(100*float64(p.calls[0].by(floodEnd, limit))/(capacity/5*floodEnd.Seconds()), "%capacity")
	}
}
