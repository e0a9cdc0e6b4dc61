package sharedsched

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Settings say how the tasks of one version are queued and batched. They may change at any time (EventConfigure);
// a change applies from the next batch on.
type Settings struct {
	// Batched joins tasks of equal key along the batch dimension. Otherwise every task runs whole, in an execution of
	// its own.
	Batched bool
	// MaxBatchSize is the most rows in one execution, at least 1. Too low wastes the device, too high holds it for
	// long.
	MaxBatchSize int
	// MaxBatchCost is the most device time of one execution. A single row that costs more runs alone. Zero: no bound.
	MaxBatchCost time.Duration
	// BatchTimeout holds a partial batch until its oldest task has waited this long, or a limit or named target
	// presses. Zero, the default: a free device takes the waiting tasks, which wins unless arrivals are about to fill
	// the batch anyway.
	BatchTimeout time.Duration
	// MaxQueue is how many tasks of one flow may wait, over all keys. Beyond it they are refused. Zero: 1000, and
	// besides as many with limits of their own as can be served within these.
	MaxQueue int
	// MaxRequestRows is the most rows in one task. Larger ones fail with ErrTooManyRows, unless they are to run alone,
	// as a proof of batching is. Zero: no bound.
	MaxRequestRows int
	// AllowedBatchSizes are the sizes an execution may have, ascending, the last at least MaxBatchSize: smaller batches
	// are padded up. Empty: any size.
	AllowedBatchSizes []int
	// RowMemory is the device memory, in bytes, that each further row of an execution takes at most. Where telemetry
	// knows how much is free, it keeps executions from becoming larger than fits. Zero: unknown; only executions that
	// ran out of memory bound the next.
	RowMemory int64 `json:",omitempty"`
	// WaitWhenFull makes callers wait for room (package shell), until the limit, instead of being refused when MaxQueue
	// tasks wait.
	WaitWhenFull bool
	// TargetLatency is the target of tasks that bring none. Zero: five times the cost of a full batch, within 20 ms and
	// 1 s, which orders but ends no BatchTimeout.
	TargetLatency time.Duration
	// MaxLatency is the limit of tasks that bring none. Zero: none.
	MaxLatency time.Duration
}

// validate returns an error that says which setting is out of its bounds.
func (s *Settings) validate() error {
	switch {
	case s.MaxBatchSize < 1:
		return fmt.Errorf("sharedsched: MaxBatchSize is %d, must be at least 1", s.MaxBatchSize)
	case s.MaxQueue < 0:
		return fmt.Errorf("sharedsched: MaxQueue is %d, must not be negative", s.MaxQueue)
	case s.MaxBatchCost < 0 || s.BatchTimeout < 0 || s.TargetLatency < 0 || s.MaxLatency < 0:
		return fmt.Errorf("sharedsched: durations must not be negative: %+v", *s)
	case s.RowMemory < 0:
		return fmt.Errorf("sharedsched: RowMemory is %d bytes, must not be negative", s.RowMemory)
	case !slices.IsSorted(s.AllowedBatchSizes):
		return fmt.Errorf("sharedsched: AllowedBatchSizes %v must ascend", s.AllowedBatchSizes)
	case len(s.AllowedBatchSizes) > 0 && s.AllowedBatchSizes[0] < 1:
		return fmt.Errorf("sharedsched: AllowedBatchSizes %v must be at least 1", s.AllowedBatchSizes)
	case len(s.AllowedBatchSizes) > 0 && s.AllowedBatchSizes[len(s.AllowedBatchSizes)-1] < s.MaxBatchSize:
		return fmt.Errorf("sharedsched: the largest of AllowedBatchSizes %v is below MaxBatchSize %d",
			s.AllowedBatchSizes, s.MaxBatchSize)
	}
	return nil
}

// QueueBound returns how many tasks may wait; tasks with limits of their own are bounded by these.
func (s *Settings) QueueBound() int { return cmp.Or(s.MaxQueue, defaultQueue) }

// Limit returns the limit of a task that arrives then and brings none.
func (s *Settings) Limit(arrival Time) Time {
	if s.MaxLatency > 0 {
		return arrival.Add(s.MaxLatency)
	}
	return Never
}

// padded returns the size that an execution of rows rows has.
func (s *Settings) padded(rows int) int {
	i, _ := slices.BinarySearch(s.AllowedBatchSizes, rows)
	if i == len(s.AllowedBatchSizes) {
		return rows
	}
	return s.AllowedBatchSizes[i]
}

// trimmed returns the largest allowed size of at most rows, 0 if there is none.
func (s *Settings) trimmed(rows int) int {
	i, exact := slices.BinarySearch(s.AllowedBatchSizes, rows)
	switch {
	case exact:
		return rows
	case i == 0:
		return 0
	}
	return s.AllowedBatchSizes[i-1]
}
