package weftapi

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// namedVersion is a version of the scheduler's state with the names that callers know it by. Its methods convert the
// parts of the state.
type namedVersion struct {
	model     string
	number    int64
	state     *sharedsched.VersionState
	signature *tensor.Signature // for describeKey; nil if the version is not in the snapshot (any more)
}

// queueStages maps the stages of a queue, which the scheduler gives by name, to the API's.
var queueStages = map[string]weftv1.SchedulerQueueStage{
	"resting":   weftv1.SchedulerQueueStage_SCHEDULER_QUEUE_STAGE_RESTING,
	"pending":   weftv1.SchedulerQueueStage_SCHEDULER_QUEUE_STAGE_PENDING,
	"demanding": weftv1.SchedulerQueueStage_SCHEDULER_QUEUE_STAGE_DEMANDING,
}

// queues converts the version's queues. Numbers that the scheduler has by version only, such as its bound, are repeated
// in each.
func (n *namedVersion) queues() []*weftv1.SchedulerQueue {
	var out []*weftv1.SchedulerQueue
	for _, q := range n.state.Queues {
		out = append(out, &weftv1.SchedulerQueue{
			Model: n.model, Version: n.number, ShapeKey: describeKey(n.signature, q.Key), Requests: int32(q.Tasks),
			Rows:     int64(q.Rows),
			InFlight: int32(q.Running), MaxBatchRows: int32(q.MaxRows), MaxQueue: int32(n.state.Settings.QueueBound()),
			Stage: queueStages[q.Stage], NextCostMs: inMilliseconds(q.NextCost), SlackMs: inMilliseconds(q.Slack),
			BackgroundRequests: int32(n.state.Background), MemoryRows: int32(q.MemoryRows),
			OutOfMemoryMs:  inMilliseconds(q.OutOfMemory),
			WaitingForRoom: int32(n.state.Waiting),
		})
	}
	return out
}

// costs converts the measured time of executions, by shape and number of rows. class is that of the version's device.
func (n *namedVersion) costs(class string) []*weftv1.SchedulerCost {
	var out []*weftv1.SchedulerCost
	for _, c := range n.state.Costs {
		shape := describeKey(n.signature, c.ShapeKey)
		for _, e := range c.Entries {
			out = append(out, &weftv1.SchedulerCost{
				Model: n.model, Version: n.number, ShapeKey: shape, BatchSize: int32(e.Rows), DeviceClass: class,
				MedianUs: inMicroseconds(e.Median), Samples: int32(e.Samples), Cold: !e.Trusted,
				HighUs: inMicroseconds(e.High), MadUs: inMicroseconds(e.MAD), Outliers: int64(e.Outliers),
			})
		}
	}
	return out
}

// curves converts the cost curve of each shape, alpha + beta × rows, from which unmeasured sizes are estimated.
func (n *namedVersion) curves(class string) []*weftv1.SchedulerCurve {
	var out []*weftv1.SchedulerCurve
	for _, c := range n.state.Costs {
		out = append(out, &weftv1.SchedulerCurve{
			Model: n.model, Version: n.number, ShapeKey: describeKey(n.signature, c.ShapeKey), DeviceClass: class,
			AlphaUs: inMicroseconds(c.Alpha), BetaUs: inMicroseconds(c.Beta), Inherited: c.Inherited,
			Drifts: int32(c.Drifts),
			Factor: c.Factor, ResidualFactor: c.Residual, ClockShare: c.ClockShare, CoTenantGain: c.CoTenantGain,
		})
	}
	return out
}

// splitName takes a version's name in the scheduler, "model/3", apart. A model's name has no slash. What is not of that
// form is a name without a number.
func splitName(name string) (model string, number int64) {
	model, digits, _ := strings.Cut(name, "/")
	number, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return name, 0
	}
	return model, number
}

// describeKey puts the key of a queue, or its shape part, into words: the open dimensions as tensor.Signature.ShapeKey
// lists them, eight bytes each, then a fingerprint of the values that follow in tensor.Signature.Key. Those are a
// caller's inputs, which are not shown. Without a signature all is fingerprinted.
func describeKey(sig *tensor.Signature, key string) string {
	var parts []string
	if sig != nil {
		for _, spec := range sig.Inputs {
			for d, size := range spec.Shape {
				if size == tensor.Unknown && d != spec.BatchDim && len(key) >= 8 {
					extent := binary.LittleEndian.Uint64([]byte(key[:8]))
					parts = append(parts, fmt.Sprintf("%s[%d]=%d", spec.Name, d, extent))
					key = key[8:]
				}
			}
		}
	}
	if key != "" {
		h := fnv.New64a()
		_, _ = h.Write([]byte(key)) // never fails
		parts = append(parts, fmt.Sprintf("values#%016x", h.Sum64()))
	}
	return strings.Join(parts, ", ")
}
