package modelrepo

import (
	"fmt"
	"slices"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/proto/gen/inference"
)

// The most that Check lets a manifest have.
const (
	maxBatch   = 1 << 16
	maxQueue   = 1_000_000
	maxTimeout = time.Minute
	maxLimit   = time.Hour
)

// usualLevel is the priority level that requests without one have in Weft, and levels how many there are.
const usualLevel, levels = 2, 4

// scheduling maps how requests are queued and joined.
func (t *tritonConfig) scheduling() {
	if t.c.GetSequenceBatching() != nil {
		t.sequences()
	}
	if t.c.GetEnsembleScheduling() != nil {
		t.ensemble()
	}
	for path, n := range map[string]int{
		"batch_input": len(t.c.GetBatchInput()), "batch_output": len(t.c.GetBatchOutput()),
	} {
		if n > 0 {
			t.fault(path, "Weft adds no inputs to batches, and cuts no outputs by them; export the model with padded inputs, "+
				"and name them in batching.variable_dims")
		}
	}
	d := t.c.GetDynamicBatching()
	if d == nil {
		return
	}
	const at = "dynamic_batching"
	t.told[at] = slices.Contains(t.leaves, at) // dynamic_batching {}
	t.priorities(d)
	t.queuePolicy(at+".default_queue_policy", d.GetDefaultQueuePolicy())
	if n := d.GetMaxQueueDelayMicroseconds(); n > 0 {
		path := at + ".max_queue_delay_microseconds"
		t.m.Batching.BatchTimeout = t.duration(path, n, maxTimeout)
		t.sets("batching.batch_timeout", path)
	}
}

// hold shortens how long batches are held, if the file sets that, to the limit of their requests.
func (t *tritonConfig) hold() {
	m, set := &t.m.Batching.BatchTimeout, t.own.Batching.BatchTimeout
	if path := t.set["batching.batch_timeout"]; path != "" && *m == set && t.m.MaxLatency > 0 && set > t.m.MaxLatency {
		*m = t.m.MaxLatency
		t.note(path, "a batch that was held for %v would come too late for max_latency: it is held for %v", set, *m)
	}
}

// duration returns microseconds, or the most that Weft has instead.
func (t *tritonConfig) duration(path string, micros uint64, most time.Duration) config.Duration {
	return config.Duration(time.Duration(t.most(path, micros, uint64(most.Microseconds()))) * time.Microsecond)
}

// priorities judges the levels of requests, which the requests name themselves.
func (t *tritonConfig) priorities(d *inference.ModelDynamicBatching) {
	const number, usual = "dynamic_batching.priority_levels", "dynamic_batching.default_priority_level"
	if n := d.GetPriorityLevels(); n > levels {
		t.note(number, "Weft has %d levels: those from %d on are one; set target_latency of requests to order them",
			levels, levels)
	}
	t.told[number] = true
	if n := d.GetDefaultPriorityLevel(); n > 0 && n != usualLevel {
		t.note(usual, "requests that name no priority have level %d (CRITICAL) here: have them name %d", usualLevel, n)
	}
	t.told[usual] = true
}

// queuePolicy maps the policy of all levels.
func (t *tritonConfig) queuePolicy(at string, p *inference.ModelQueuePolicy) {
	if p == nil {
		return
	}
	t.told[at] = slices.Contains(t.leaves, at) // {}
	if n := p.GetMaxQueueSize(); n > 0 {
		path := at + ".max_queue_size"
		t.m.Batching.MaxQueue = int(t.most(path, uint64(n), maxQueue))
		t.sets("batching.max_queue", path)
	}
	if n := p.GetDefaultTimeoutMicroseconds(); n > 0 {
		path := at + ".default_timeout_microseconds"
		limit := t.duration(path, n, maxLimit)
		if p.GetTimeoutAction() == inference.ModelQueuePolicy_DELAY {
			t.m.TargetLatency, t.m.MaxLatency = limit, 0
			t.sets("target_latency", path)
			t.sets("max_latency", at+".timeout_action")
		} else {
			t.m.MaxLatency = limit
			t.sets("max_latency", path)
		}
		t.told[at+".allow_timeout_override"] = p.GetAllowTimeoutOverride() // a request's own limit counts here always
	}
}

// graphSizes returns the sizes of batches that CUDA graphs are captured for: the ones that the file names, or else
// powers of two; the last is the largest batch.
func (t *tritonConfig) graphSizes() []int {
	most := t.m.Batching.Largest()
	sizes := []int{most}
	for i, s := range t.c.GetOptimization().GetCuda().GetGraphSpec() {
		t.told[fmt.Sprintf("optimization.cuda.graph_spec[%d].batch_size", i)] = true
		if n := int(s.GetBatchSize()); n >= 1 && n < most {
			sizes = append(sizes, n)
		}
	}
	if len(sizes) == 1 {
		for n := 1; n < most; n *= 2 {
			sizes = append(sizes, n)
		}
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}
