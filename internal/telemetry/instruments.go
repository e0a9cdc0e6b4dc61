package telemetry

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// instruments are the metrics that record events as they happen. The others are read on demand, see gauges.go.
// testdata/metrics.txt lists all of them with their labels. Histograms have no other labels than model and version, and
// few have those: each set of labels makes twenty lines on the page.
type instruments struct {
	batchCost     metric.Float64Histogram
	batchSeconds  metric.Float64Histogram
	batchSize     metric.Int64Histogram
	flushes       metric.Int64Counter
	paddingRows   metric.Int64Counter
	estimateError metric.Float64Histogram
	deviceBusy    metric.Float64Counter
	queueWait     metric.Float64Histogram
	rejected      metric.Int64Counter
	duration      metric.Float64Histogram
	audited       metric.Int64Counter
	crashed       metric.Int64Counter
	tried         metric.Int64Counter
	denied        metric.Int64Counter
	unread        metric.Int64Counter
	waited        metric.Float64Histogram
}

// Buckets. Small policies answer within microseconds, so that latencies are told apart from 20 of them on, and take
// less of device time.
var (
	milliseconds = metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50,
		100, 250, 500, 1000, 2500, 5000)
	seconds = metric.WithExplicitBucketBoundaries(
		0.00002, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
	rows   = metric.WithExplicitBucketBoundaries(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
	ratios = metric.WithExplicitBucketBoundaries(0.1, 0.25, 0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5, 2, 4, 10)
)

func newInstruments(m metric.Meter) (instruments, error) {
	var (
		i    instruments
		errs [16]error
	)
	i.batchCost, errs[0] = m.Float64Histogram("weft_batch_cost_per_flush_ms", milliseconds,
		metric.WithDescription("Device time of one execution in milliseconds, as measured."))
	i.batchSize, errs[1] = m.Int64Histogram("weft_batch_size_per_flush", rows,
		metric.WithDescription("Rows of requests in one execution, padding not counted."))
	i.flushes, errs[2] = m.Int64Counter("weft_batch_flush_total",
		metric.WithDescription("Executions, by why the batch was started when it was."))
	i.paddingRows, errs[3] = m.Int64Counter("weft_padding_rows_total",
		metric.WithDescription("Rows executed only to fill a batch up to an allowed size."))
	i.estimateError, errs[4] = m.Float64Histogram("weft_cost_estimate_error_ratio", ratios,
		metric.WithDescription("Measured device time of an execution divided by what had been expected; 1 is a "+
			"perfect estimate."))
	i.deviceBusy, errs[5] = m.Float64Counter("weft_device_busy_seconds_total",
		metric.WithDescription("Device time used, by whom; with proof of batching and warm-up."))
	i.queueWait, errs[6] = m.Float64Histogram("weft_queue_wait_seconds", seconds,
		metric.WithDescription("Time that answered requests waited before their first row was executed."))
	i.rejected, errs[7] = m.Int64Counter("weft_rejected_total",
		metric.WithDescription("Requests that were refused by the scheduler or left its queue without being executed, "+
			"by why."))
	i.duration, errs[8] = m.Float64Histogram("weft_request_duration_seconds", seconds,
		metric.WithDescription("Time from a decoded request to its answer, before it is encoded for the wire."))
	i.audited, errs[9] = m.Int64Counter("weft_batching_audit_total",
		metric.WithDescription("Requests that were answered from a batch or in parts, by what became of comparing "+
			"that with what they give alone."))
	i.crashed, errs[10] = m.Int64Counter("weft_requests_crashed_total",
		metric.WithDescription("Requests that failed because they end the engine's process by themselves, those that "+
			"were not run once more for that included, by how: crash, hang or memory."))
	i.tried, errs[11] = m.Int64Counter("weft_quarantine_runs_total",
		metric.WithDescription("Runs where nothing else runs, to find what ended the engine's process, by how they ended."))
	i.batchSeconds, errs[13] = m.Float64Histogram("weft_batch_cost_seconds", seconds,
		metric.WithDescription("Device time of one execution, as measured."))
	i.denied, errs[12] = m.Int64Counter("weft_access_denied_total",
		metric.WithDescription("Requests that were denied, or refused by a quota, by the identity of the access file and "+
			"why. The identity is empty where it is not known."))
	i.unread, errs[14] = m.Int64Counter("weft_requests_unread_total",
		metric.WithDescription("Requests that were refused by the headers of their calls, unread, because most of the "+
			"latest like them could not be answered."))
	i.waited, errs[15] = m.Float64Histogram("weft_intake_delay_seconds", seconds,
		metric.WithDescription("Time that the headers of calls waited in the kernel and in this process until they were "+
			"seen, where the kernel tells."))
	return i, errors.Join(errs[:]...)
}

// labels is a set of labels that was put together once, in the forms in which instruments take it.
type labels struct {
	add    []metric.AddOption
	record []metric.RecordOption
}
