package replay

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/status"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/runtime/tensor/compare"
	"github.com/weftserve/weft/server/shadow"
	"github.com/weftserve/weft/server/wire"
)

// comparison adds up how the answers to requests that were sent again compare with the recorded ones. Its memory does
// not grow with their number.
type comparison struct {
	tolerances *tolerances
	batchDims  map[string]int // by output; tensor.NoBatch for outputs that have none

	// mu guards the sums. Outputs are compared without it.
	mu               sync.Mutex
	compared, agreed int64                // guarded by mu; requests that were answered then and now
	mismatched       int64                // guarded by mu; of those: an output is of another type or shape, or missing
	answeredThen     int64                // guarded by mu
	lost             map[string]int64     // guarded by mu; how requests end now, by code, that were answered then
	outputs          shadow.Tally         // guarded by mu
	several          map[string]bool      // guarded by mu; outputs with a row of several elements: one has no argmax
	recorded, now    timings              // guarded by mu
	codes            map[string]*[2]int64 // guarded by mu; how many requests ended so then, and now
	versions         map[int64]*[2]int64  // guarded by mu; how many a version answered then, and now
	unsent           map[string]int64     // guarded by mu; how many requests were not sent, by the reason
	example          error                // guarded by mu; the first failure of a request that was answered then
}

// timings is where the time of answered requests went.
type timings struct{ queue, compute, device, roundTrip durations }

// newComparison returns an empty comparison of answers with a signature.
func newComparison(s *weftv1.Signature, tolerances *tolerances) *comparison {
	c := &comparison{
		tolerances: tolerances, batchDims: map[string]int{}, lost: map[string]int64{},
		codes: map[string]*[2]int64{}, versions: map[int64]*[2]int64{}, several: map[string]bool{},
		unsent: map[string]int64{},
	}
	for _, output := range s.GetOutputs() {
		// Outputs without rows are compared as a whole.
		dim := tensor.NoBatch
		if output.BatchDim != nil {
			dim = int(output.GetBatchDim())
		}
		c.batchDims[output.GetName()] = dim
	}
	return c
}

// add takes in one request, which it does not keep. The outputs are compared before the lock is taken: that is most of
// the work, and requests end concurrently.
func (c *comparison) add(r replayed) {
	const recorded, now = 0, 1
	if r.unsent != "" {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.unsent[r.unsent]++; r.unsent == failedStep {
			count(c.codes, r.entry.Code, recorded)
		}
		return
	}
	var differences []compare.Difference
	var then []compare.Output
	// Only requests that were answered both times have outputs to compare.
	both := r.answer != nil && r.entry.Response != nil
	if both {
		then = c.tensors(r.entry.Response)
		differences, _ = compare.Outputs(then, c.tensors(r.answer), c.tolerances.of)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if both {
		c.compared++
		c.outputs.Add(differences)
		// An output with one element in each row always agrees in its argmax, so that the report leaves it out.
		for _, o := range then {
			rows := int64(1)
			if o.BatchDim >= 0 && o.BatchDim < len(o.Tensor.Shape) {
				rows = o.Tensor.Shape[o.BatchDim]
			}
			if elements, _ := o.Tensor.Shape.Elements(); elements > rows {
				c.several[o.Name] = true
			}
		}
		if !slices.ContainsFunc(differences, func(d compare.Difference) bool { return !d.Agreed }) {
			c.agreed++
		}
		if slices.ContainsFunc(differences, func(d compare.Difference) bool { return d.Mismatch != "" }) {
			c.mismatched++
		}
	}
	if r.entry.Response != nil {
		c.answeredThen++
		// The first error of all is the example in the report.
		if r.err != nil {
			c.lost[status.Code(r.err).String()]++
			c.example = cmp.Or(c.example, r.err)
		}
	}
	count(c.codes, r.entry.Code, recorded)
	count(c.codes, status.Code(r.err).String(), now)
	if e := r.entry; e.Response != nil {
		count(c.versions, e.Version, recorded)
		c.recorded.add(e.QueueUs, e.ComputeUs, e.DeviceUs)
	}
	if r.answer != nil {
		x := r.answer.GetExecution()
		count(c.versions, r.answer.GetModel().GetVersion(), now)
		c.now.add(x.GetQueueUs(), x.GetComputeUs(), x.GetDeviceUs())
		c.now.roundTrip.add(r.took)
	}
}

// count counts one of a kind: then (0) or now (1).
func count[K comparable](counts map[K]*[2]int64, key K, which int) {
	if counts[key] == nil {
		counts[key] = &[2]int64{}
	}
	counts[key][which]++
}

// add adds the times that a server told of one request. The round trip is measured here, and was not recorded.
func (t *timings) add(queueUs, computeUs, deviceUs int64) {
	t.queue.add(time.Duration(queueUs) * time.Microsecond)
	t.compute.add(time.Duration(computeUs) * time.Microsecond)
	t.device.add(time.Duration(deviceUs) * time.Microsecond)
}

// tensors returns the outputs of an answer for the comparison. An output that the signature lacks has no rows of its
// own.
func (c *comparison) tensors(answer *weftv1.PredictResponse) []compare.Output {
	all := make([]compare.Output, 0, len(answer.GetOutputs()))
	for name, message := range answer.GetOutputs() {
		dim, known := c.batchDims[name]
		if !known {
			dim = tensor.NoBatch
		}
		output, err := wire.Tensor(message)
		if err != nil {
			output = tensor.Tensor{} // which agrees with nothing
		}
		all = append(all, compare.Output{Name: name, Tensor: output, BatchDim: dim})
	}
	return all
}
