package proof

import "github.com/weftserve/weft/runtime/engine"

// memoryGrowth learns, while ever larger batches are tried, how much device memory a further row of an execution takes:
// the most that one took between two sizes, since an operator's need may grow in steps.
type memoryGrowth struct {
	rows   int // of the largest batch so far; 0: none was seen
	peak   int64
	perRow int64 // 0: not known
}

// saw follows a batch of so many rows, more than any before.
func (g *memoryGrowth) saw(m engine.Memory, rows int) {
	if !m.Known {
		return
	}
	if g.rows > 0 {
		g.perRow = max(g.perRow, (m.Peak-g.peak)/int64(rows-g.rows))
	}
	g.rows, g.peak = rows, m.Peak
}
