package execution

import (
	"sync"

	"github.com/weftserve/weft/runtime/catalog"
)

// Counts counts executions by their rows. The zero value is ready.
type Counts struct {
	mu   sync.Mutex
	rows map[int]catalog.BatchCount // guarded by mu
}

// add counts one execution of so many rows.
func (c *Counts) add(rows int, took catalog.Phases) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rows == nil {
		c.rows = map[int]catalog.BatchCount{}
	}
	n := c.rows[rows]
	c.rows[rows] = catalog.BatchCount{Rows: rows, Executions: n.Executions + 1, Phases: n.Phases.Plus(took)}
}

// Forget forgets the executions so far.
func (c *Counts) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.rows)
}

// AddTo adds the executions to all, by their rows.
func (c *Counts) AddTo(all map[int]catalog.BatchCount) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for rows, n := range c.rows {
		was := all[rows]
		all[rows] = catalog.BatchCount{
			Rows: rows, Executions: was.Executions + n.Executions, Phases: was.Phases.Plus(n.Phases),
		}
	}
}
