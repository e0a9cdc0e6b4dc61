package telemetry

import (
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/weftserve/weft/sharedsched"
)

// accounts are the metrics of tasks and executions, from their beginning to their end, with those of proof and warm-up.
// All are read from the scheduler at one moment, so that on each page they add up: the number begun is the number ended
// plus the number in flight.
type accounts struct {
	accepted, ended, started, executed, late, reruns, waits, waited metric.Int64ObservableCounter
	live, running, waiting                                          metric.Int64ObservableGauge
}

// newAccounts makes the instruments. An error stays in i.
func newAccounts(i *observed) *accounts {
	return &accounts{
		accepted: i.counter("weft_tasks_accepted_total",
			"Tasks that were let into a queue: of requests, of shadows, of proof and warm-up."),
		ended:    i.counter("weft_tasks_ended_total", "Accepted tasks, by how they ended."),
		live:     i.gauge("weft_tasks_in_flight", "Accepted tasks that have not ended."),
		started:  i.counter("weft_executions_started_total", "Executions that were started."),
		executed: i.counter("weft_executions_ended_total", "Executions that ended: done, or why they failed."),
		late: i.counter("weft_executions_late_total",
			"Executions that ended too late to deliver answers by the deadlines of any of their requests."),
		running: i.gauge("weft_executions_in_flight", "Executions that run."),
		reruns: i.counter("weft_execution_reruns_total",
			"Runs of parts of executions that failed, to answer the requests that can be answered; without those in "+
				"quarantine."),
		waits:   i.counter("weft_room_waits_total", "Requests that found the queue full and waited for room."),
		waited:  i.counter("weft_room_waits_ended_total", "Waits for room in a full queue, by how they ended."),
		waiting: i.gauge("weft_waiting_for_room", "Requests that wait for room in a full queue, and are not in it."),
	}
}

// observe reports the accounts of all versions, one for each device that a version runs on.
func (m *accounts) observe(o metric.Observer, all []sharedsched.Account) {
	for i := range all {
		a := &all[i]
		model, version := splitName(a.Name)
		// Labels are made for each page: there are pages every few seconds, and batches by the thousand.
		common := []attribute.KeyValue{
			attribute.String("device", a.Device), attribute.String("model", model),
			attribute.String("version", version),
		}
		plain := metric.WithAttributes(common...)
		with := func(name string, value fmt.Stringer) metric.MeasurementOption {
			return metric.WithAttributes(append(slices.Clip(common), attribute.String(name, value.String()))...)
		}
		o.ObserveInt64(m.accepted, int64(a.Accepted), plain)
		o.ObserveInt64(m.live, int64(a.Live), plain)
		o.ObserveInt64(m.started, int64(a.Started), plain)
		o.ObserveInt64(m.running, int64(a.InFlight), plain)
		o.ObserveInt64(m.late, int64(a.Late), plain)
		o.ObserveInt64(m.reruns, int64(a.Reruns), plain)
		o.ObserveInt64(m.waits, int64(a.Waits), plain)
		o.ObserveInt64(m.waiting, int64(a.Waiting), plain)
		for end, n := range a.Ended {
			observeEnd(o, m.ended, n, with("end", sharedsched.End(end)))
		}
		for failure, n := range a.Executions {
			observeEnd(o, m.executed, n, with("outcome", sharedsched.Failure(failure)))
		}
		for end, n := range a.WaitsEnded {
			observeEnd(o, m.waited, n, with("end", sharedsched.WaitEnd(end)))
		}
	}
}

// observeEnd reports a count above 0 only, so that a series appears with its first event, as those of other counters
// do.
func observeEnd(o metric.Observer, counter metric.Int64ObservableCounter, n uint64, labels metric.MeasurementOption) {
	if n > 0 {
		o.ObserveInt64(counter, int64(n), labels)
	}
}

// splitName divides the scheduler's name of a version, such as "walker/3". A model's name may have slashes of its own.
func splitName(name string) (model, version string) {
	at := max(strings.LastIndexByte(name, '/'), 0)
	return name[:at], strings.TrimPrefix(name[at:], "/")
}
