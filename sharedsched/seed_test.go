package sharedsched

import (
	"testing"
	"time"
)

// These are behaviours of other systems that docs/migrate/README.md maps to ours and that neither a scenario nor
// another test states.

// TestPadding: the rows of the first batch, and as how many it runs. TensorFlow's batching library states what
// minimizes cost with costs and cheap.
func TestPadding(t *testing.T) {
	costs := map[int]time.Duration{2: 2 * time.Second, 4: 3100 * time.Millisecond}
	rising := map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 4: 3500 * time.Millisecond}
	cheap := map[int]time.Duration{2: 2 * time.Second, 4: 2900 * time.Millisecond}
	for _, tt := range []struct {
		name    string
		allowed []int
		costs   map[int]time.Duration
		tasks   []int // rows of each
		rows    int   // of the first batch
		padded  int
	}{
		{"a row is left where that is cheaper", []int{1, 2, 4, 8}, rising, []int{1, 1, 1}, 2, 2},
		{"an allowed number", []int{1, 2, 4, 8}, rising, []int{1, 1, 1, 1}, 4, 4},
		{"no smaller size", []int{4, 8}, nil, []int{1, 1, 1}, 3, 4},
		{"unmeasured sizes", []int{1, 2, 4, 8}, map[int]time.Duration{}, []int{1, 1, 1}, 3, 4},
		{"2 s for two rows or 3.1 s for three", []int{2, 4}, costs, []int{1, 1, 1}, 2, 2},
		{"2 s for two rows or 2.9 s for three", []int{2, 4}, cheap, []int{1, 1, 1}, 3, 4},
		{"would cut a request", []int{2, 4}, costs, []int{1, 2}, 3, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, v := oneVersion(t, Settings{
				Batched: true, MaxBatchSize: tt.allowed[len(tt.allowed)-1], MaxQueue: 100,
				AllowedBatchSizes: tt.allowed,
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
