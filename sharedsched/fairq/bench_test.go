package fairq

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkPick measures the cost of choosing a flow when all of them demand service: find the one that is due first,
// charge it, and let it demand its next piece of work, due later than that of most others.
func BenchmarkPick(b *testing.B) {
	for _, flows := range []int{10, 1000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("flows=%d", flows), func(b *testing.B) {
			var q Queue
			rng := uint32(1)
			later := func() int64 {
				rng = rng*1664525 + 1013904223
				return int64(rng>>4) * int64(flows) / 100
			}
			for f := range Flow(flows) {
				q.Set(f, 1)
				q.Demand(f, later())
			}
			b.ReportAllocs()
			for due := int64(0); b.Loop(); due += 1e6 {
				f, _ := q.First()
				q.Charge(f, time.Millisecond)
				q.Demand(f, due+later())
			}
		})
	}
}
