package sharedsched

import (
	"testing"
	"time"
)

// These are behaviours of other systems that docs/MIGRATING.md maps to ours and that neither a scenario nor another
// test states.

// TestPaddingPolicies: the rows of the first batch, and as how many it runs. TensorFlow's batching library states the
// policies with these costs.
func TestPaddingPolicies(t *testing.T) {
	costs := map[int]time.Duration{2: 2 * time.Second, 4: 3100 * time.Millisecond}
	cheap := map[int]time.Duration{2: 2 * time.Second, 4: 2900 * time.Millisecond}
	for _, tt := range []struct {
		name    string
		policy  PaddingPolicy
		allowed []int
		costs   map[int]time.Duration
		tasks   []int // rows of each
		rows    int   // of the first batch
		padded  int
	}{
		{"pad_up", PadUp, []int{1, 2, 4, 8}, nil, []int{1, 1, 1}, 3, 4},
		{"batch_down leaves a row", BatchDown, []int{1, 2, 4, 8}, nil, []int{1, 1, 1}, 2, 2},
		{"batch_down with an allowed number", BatchDown, []int{1, 2, 4, 8}, nil, []int{1, 1, 1, 1}, 4, 4},
		{"batch_down with no smaller size", BatchDown, []int{4, 8}, nil, []int{1, 1, 1}, 3, 4},
		{"minimize_cost: 2 s for two rows or 3.1 s for three", MinimizeCost, []int{2, 4}, costs, []int{1, 1, 1}, 2, 2},
		{"minimize_cost: 2 s for two rows or 2.9 s for three", MinimizeCost, []int{2, 4}, cheap, []int{1, 1, 1}, 3, 4},
		{"batch_down would cut a request", BatchDown, []int{2, 4, 8}, nil, []int{1, 2}, 3, 4},
		{"minimize_cost would cut a request", MinimizeCost, []int{2, 4}, costs, []int{1, 2}, 3, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, v := oneVersion(t, Settings{
				Batched: true, MaxBatchSize: tt.allowed[len(tt.allowed)-1], MaxQueue: 100,
				AllowedBatchSizes: tt.allowed, Padding: tt.policy,
			})
			if tt.costs == nil {
				tt.costs = map[int]time.Duration{1: time.Millisecond, 8: time.Millisecond}
			}
			curve := c.shapeOf(v, "")
			for rows, cost := range tt.costs {
				for range 3 {
					curve.Settle(curve.Begin(rows), cost)
				}
			}
			for _, rows := range tt.tasks {
				if _, _, err := c.Submit(0, v, &Task{Rows: rows}, Never, nil); err != nil {
					t.Fatal(err)
				}
			}
			var b Batch
			if ok, _ := c.Next(0, 0, &b, nil); !ok || b.Rows != tt.rows || b.Padded != tt.padded {
				t.Errorf("started %v: %d rows as %d, want %d as %d", ok, b.Rows, b.Padded, tt.rows, tt.padded)
			}
		})
	}
}
