package telemetry

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// instruments are the metrics that record events as they happen; gauges.go has the ones that are read on demand.
// testdata/metrics.txt lists all with their labels. Histograms have no other labels than model and version, and few
// have those: each set of labels makes twenty lines on the page.
type instruments struct {
	flushes, paddingRows, rejected, audited, crashed, tried, denied, unread, degraded, failedOver, shadows, agreed,
	outcomes, notKept, uploads, uploadBytes metric.Int64Counter
	batchCost, estimateError, queueWait, duration, batchSeconds, waited, difference, slower, steps metric.Float64Histogram

	batchSize  metric.Int64Histogram
	deviceBusy metric.Float64Counter
}

// Bounds of buckets. Small policies answer within microseconds, so that latencies are told apart from 20 µs on, and
// device times from 5 µs on.
var (
	milliseconds = metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50,
		100, 250, 500, 1000, 2500, 5000)
	seconds = metric.WithExplicitBucketBoundaries(
		0.00002, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
	rows        = metric.WithExplicitBucketBoundaries(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
	ratios      = metric.WithExplicitBucketBoundaries(0.1, 0.25, 0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5, 2, 4, 10)
	differences = metric.WithExplicitBucketBoundaries(0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1)
)

// newInstruments makes all instruments. Names and labels are an interface: dashboards and alerts depend on them.
func newInstruments(meter metric.Meter) (instruments, error) {
	m := &maker{meter: meter}
	i := instruments{
		batchCost: m.histogram("weft_batch_cost_per_flush_ms", milliseconds,
			"Device time of one execution in milliseconds, as measured."),
		flushes:     m.counter("weft_batch_flush_total", "Executions, by why the batch was started when it was."),
		paddingRows: m.counter("weft_padding_rows_total", "Rows executed only to fill a batch up to an allowed size."),
		estimateError: m.histogram("weft_cost_estimate_error_ratio", ratios,
			"Measured device time of an execution divided by what had been expected; 1 is a perfect estimate."),
		queueWait: m.histogram("weft_queue_wait_seconds", seconds,
			"Time that answered requests waited before their first row was executed."),
		rejected: m.counter("weft_rejected_total",
			"Requests that were refused by the scheduler or left its queue without being executed, by why."),
		duration: m.histogram("weft_request_duration_seconds", seconds,
			"Time from a decoded request to its answer, before it is encoded for the wire."),
		audited: m.counter("weft_batching_audit_total",
			"Requests that were answered from a batch or in parts, by what became of comparing that with what they "+
				"give alone."),
		crashed: m.counter("weft_requests_crashed_total",
			"Requests that failed because they end the engine's process by themselves, those that were not run once "+
				"more for that included, by how: crash, hang or memory."),
		tried: m.counter("weft_quarantine_runs_total",
			"Runs where nothing else runs, to find what ended the engine's process, by how they ended."),
		steps: m.histogram("weft_pipeline_step_seconds", seconds,
			"Time that a step took for a request to a pipeline whose steps run by themselves, in the queue and all its "+
				"repetitions included."),
		batchSeconds: m.histogram("weft_batch_cost_seconds", seconds, "Device time of one execution, as measured."),
		denied: m.counter("weft_access_denied_total",
			"Requests that were denied, or refused by a quota, by the identity of the access file and why. The "+
				"identity is empty where it is not known."),
		unread: m.counter("weft_requests_unread_total",
			"Requests that were refused by the headers of their calls, unread, because most of the latest like them "+
				"could not be answered."),
		waited: m.histogram("weft_intake_delay_seconds", seconds,
			"Time that the headers of calls waited in the kernel and in this process until they were seen, where "+
				"the kernel tells."),
		degraded: m.counter("weft_routing_degraded_total",
			"Requests without an episode although traffic is split: their version was chosen request by request."),
		failedOver: m.counter("weft_failed_over_total",
			"Requests that another version answered because the breaker of theirs was open, by the version that "+
				"should have."),
		shadows: m.counter("weft_shadow_requests_total",
			"Answered requests for a shadow, by how that ended: done, dropped for lack of room or time, failed, or "+
				"skipped by the sample or since it was not ready."),
		agreed: m.counter("weft_shadow_agreed_total",
			"Answers of a shadow that were within the tolerance of the answer that was given."),
		difference: m.histogram("weft_shadow_difference_ratio", differences,
			"Largest difference between an element of a shadow's answer and the answer that was given, as a part of "+
				"the output's largest magnitude."),
		slower: m.histogram("weft_shadow_compute_ratio", ratios,
			"Time of a shadow's executions divided by that of the answer that was given."),
		outcomes: m.counter("weft_outcomes_total", "Episodes whose outcome was reported."),
		notKept: m.counter("weft_outcomes_not_kept_total",
			"Numbers of reported outcomes that there was no room for, by why; the answers to the reports said so."),
		uploads:     m.counter("weft_uploads_total", "Uploads of versions that were begun, by how they ended."),
		uploadBytes: m.counter("weft_upload_bytes_total", "Bytes of files that came with uploads."),
	}
	// Each of the two is the only one of its kind, so that maker has no method for it.
	var err1, err2 error
	i.batchSize, err1 = meter.Int64Histogram("weft_batch_size_per_flush", rows, metric.WithDescription(
		"Rows of requests in one execution, padding not counted."))
	i.deviceBusy, err2 = meter.Float64Counter("weft_device_busy_seconds_total", metric.WithDescription(
		"Device time used, by whom; with proof of batching and warm-up."))
	return i, errors.Join(m.err, err1, err2)
}

// maker makes instruments, and keeps the errors of all.
type maker struct {
	meter metric.Meter
	err   error
}

// counter and histogram return an instrument that does nothing if it cannot be made; err says why.
func (m *maker) counter(name, help string) metric.Int64Counter {
	c, err := m.meter.Int64Counter(name, metric.WithDescription(help))
	m.err = errors.Join(m.err, err)
	return c
}

func (m *maker) histogram(name string, buckets metric.HistogramOption, help string) metric.Float64Histogram {
	h, err := m.meter.Float64Histogram(name, buckets, metric.WithDescription(help))
	m.err = errors.Join(m.err, err)
	return h
}

// labels is a set of labels in the forms in which instruments take it. It is made once, so that an event allocates
// nothing.
type labels struct {
	add    []metric.AddOption
	record []metric.RecordOption
}
