package serving

import (
	"time"

	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/proof"
	"github.com/weftserve/weft/sharedsched"
)

// settings returns the scheduler's settings of a version: limits from the manifest, as far as the proof allows batches.
// A batch of 1 row is the least.
func settings(m *modelrepo.Manifest, v proof.Verdict) sharedsched.Settings {
	b := &m.Batching
	v = v.Under(b)
	return sharedsched.Settings{
		Batched:           v.Batched,
		MaxBatchSize:      max(v.Most, 1),
		MaxBatchCost:      time.Duration(b.MaxBatchCost),
		BatchTimeout:      time.Duration(b.BatchTimeout),
		MaxQueue:          b.MaxQueue,
		WaitWhenFull:      b.OnFull == modelrepo.WaitWhenFull,
		MaxRequestRows:    requestRows(b, v),
		AllowedBatchSizes: v.Allowed,
		RowMemory:         v.RowMemory,
		TargetLatency:     time.Duration(m.TargetLatency),
		MaxLatency:        time.Duration(m.MaxLatency),
	}
}

// requestRows returns the most rows of one request; 0 is no bound. Where requests are not batched there is no bound:
// the dimension that looks like rows may be something else, such as the samples of a recording.
func requestRows(b *modelrepo.Batching, v proof.Verdict) int {
	if !v.Batched {
		return 0
	}
	return b.MaxRequestRows
}
