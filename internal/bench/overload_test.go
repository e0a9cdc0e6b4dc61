package bench

import (
	"runtime"
	"sync"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// TestOverload calls a server whose queue holds ten requests from a thousand callers at once, again and again: every
// call ends with an answer or a refusal that states the numbers, and memory does not grow from round to round.
func TestOverload(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 2 seconds")
	}
	h := newHouse(t, large, "batching: {max_queue: 10, max_batch_size: 4}")
	client := weftv1.NewPredictionServiceClient(h.serve(t))
	req := observation()
	round := func() (answered, refused int) {
		errs := make([]error, 1000)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { _, errs[i] = client.Predict(t.Context(), req) })
		}
		wg.Wait()
		for _, err := range errs {
			if err == nil {
				answered++
				continue
			}
			refused++
			checkRefusal(t, err)
		}
		return answered, refused
	}
	for range 2 { // pools and connections reach their size
		round()
	}
	rounds := 3
	before := heap()
	answered, refused := 0, 0
	for range rounds {
		a, r := round()
		answered, refused = answered+a, refused+r
	}
	after := heap()
	t.Logf("%d calls: %d answered, %d refused; heap %d KiB before, %d KiB after", 1000*rounds, answered, refused,
		before>>10, after>>10)
	if answered == 0 || refused == 0 {
		t.Errorf("%d answered, %d refused: this was no overload, or nothing was served in it", answered, refused)
	}
	// Half a kilobyte for each call of these rounds would be 1.5 MiB.
	if after > before+1<<20 {
		t.Errorf("the heap grew from %d to %d bytes over %d rounds", before, after, rounds)
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC() // the objects that the first one finalized
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func checkRefusal(t *testing.T, err error) {
	t.Helper()
	st := status.Convert(err)
	if st.Code() != codes.ResourceExhausted {
		t.Errorf("a call ended with %v", err)
		return
	}
	var info *errdetails.ErrorInfo
	var retry *errdetails.RetryInfo
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			info = d
		case *errdetails.RetryInfo:
			retry = d
		}
	}
	if info.GetReason() != "QUEUE_FULL" || info.GetMetadata()["max_queue"] != "10" ||
		info.GetMetadata()["queued"] != "10" ||
		info.GetMetadata()["model"] != "policy" || retry.GetRetryDelay().AsDuration() <= 0 {
		t.Errorf("a refusal without its details: %v, %v, %v", st.Message(), info, retry)
	}
}
