package status

import (
	"errors"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/sharedsched"
)

// loadFault is the fault of a version that could not be loaded. Where it did not fit into the memory of a device, the
// numbers say by how much, in bytes.
func loadFault(err *catalog.LoadError) fault {
	f := fault{code: codes.FailedPrecondition, reason: "LOAD_FAILED"}
	if e, ok := errors.AsType[*catalog.MemoryError](err); ok {
		f.reason = "MODEL_MEMORY"
		f.numbers = []string{
			"need", strconv.FormatInt(e.Need, 10), "in_use", strconv.FormatInt(e.InUse, 10),
			"budget", strconv.FormatInt(e.Budget, 10),
		}
	}
	return f
}

// refusalFault is the fault of a request that the scheduler refused or dropped. Its reason is the scheduler's, and its
// numbers are of the limit that it met.
func refusalFault(e *sharedsched.Refusal) fault {
	f := fault{
		code: codes.ResourceExhausted, reason: e.Reason.String(), retry: e.RetryAfter, pushback: true, unnamed: true,
	}
	switch e.Reason {
	case sharedsched.RefusedForGoodput:
		if e.Predicted > 0 { // else it was given up later, for the sake of others, and has no numbers of its own
			f.numbers = predictedNumbers(e)
		}
	case sharedsched.RefusedDeadline:
		f.numbers = predictedNumbers(e)
		f.retry = -1 // a retry has the same deadline, which is nearer by then
	case sharedsched.RefusedQueueFull:
		if e.MaxQueuedBytes > 0 { // the bound on bytes of all queues together
			f.numbers = []string{
				"max_queued_bytes", strconv.FormatInt(e.MaxQueuedBytes, 10),
				"queued_bytes", strconv.FormatInt(e.QueuedBytes, 10),
			}
			f.remedy = "--max-queued-bytes lets more wait"
		} else {
			f.numbers = []string{"max_queue", strconv.Itoa(e.MaxQueue), "queued", strconv.Itoa(e.Queued)}
			if e.Keys == 0 { // else the limit is on different shapes, which no setting raises
				f.remedy = "batching.max_queue lets more wait"
			}
		}
	}
	if f.retry == 0 {
		f.retry = retryWhenFull
	}
	f.retry = min(f.retry, retryDetailsLimit)
	return f
}

// quotaFault is the fault of a request beyond the quotas of its identity. Of the rate it is known when there is room;
// of requests and bytes in flight there is when some are answered.
func quotaFault(e *access.QuotaError) fault {
	f := fault{
		code: codes.ResourceExhausted, reason: quotaExceeded, retry: max(e.Again, time.Millisecond), pushback: true,
		numbers: []string{"identity", e.Identity, "quota", e.Quota, "limit", e.Limit},
	}
	switch {
	case e.Never:
		f.retry = -1
	case e.Quota != access.Rate:
		f.retry = retryWhenFull
	}
	f.retry = min(f.retry, retryDetailsLimit)
	return f
}

// predictedNumbers are the time until an answer, as estimated, and the time that was left.
func predictedNumbers(e *sharedsched.Refusal) []string {
	return []string{"predicted_ms", milliseconds(e.Predicted), "limit_ms", milliseconds(e.Limit)}
}

// milliseconds writes a duration as a number, to the microsecond.
func milliseconds(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Microseconds())/1e3, 'f', -1, 64)
}

// uploadFault is the fault of a version that was not taken into the repository.
func uploadFault(err *catalog.UploadError) fault {
	f := fault{code: codes.FailedPrecondition, reason: string(err.Reason)}
	switch err.Reason {
	case catalog.VersionExists:
		f.code = codes.AlreadyExists
	case catalog.TooManyUploads:
		f.code, f.retry = codes.ResourceExhausted, retryUnavailable
	case catalog.UploadStalled:
		f.code = codes.DeadlineExceeded
	case catalog.NotWritable:
	}
	return f
}
