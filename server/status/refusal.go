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
		f.retry = -1
	case sharedsched.RefusedQueueFull:
		if e.MaxQueuedBytes > 0 {
			f.numbers = []string{
				"max_queued_bytes", strconv.FormatInt(e.MaxQueuedBytes, 10),
				"queued_bytes", strconv.FormatInt(e.QueuedBytes, 10),
			}
			f.remedy = "--max-queued-bytes lets more wait"
		} else {
			f.numbers = []string{"max_queue", strconv.Itoa(e.MaxQueue), "queued", strconv.Itoa(e.Queued)}
			if e.Keys == 0 { // else it is not that limit
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

func predictedNumbers(e *sharedsched.Refusal) []string {
	return []string{"predicted_ms", milliseconds(e.Predicted), "limit_ms", milliseconds(e.Limit)}
}

func milliseconds(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Microseconds())/1e3, 'f', -1, 64)
}
