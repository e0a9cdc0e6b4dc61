package protect

import (
	"testing"
	"time"
)

// TestKindsThatMix on a connection: its calls are not told apart for a minute.
func TestKindsThatMix(t *testing.T) {
	var (
		c    kinds
		all  Throttle
		now  = time.Now()
		two  = Kind{Model: "one", Version: 2}
		only = func() *history { _, h := c.only(now); return h }
	)
	if only() != nil {
		t.Error("a connection without requests has a kind")
	}
	first := c.brought(now, one, all.history)
	if only() != first || first != all.history(one) {
		t.Error("requests of one kind have no history, or one of their own connection")
	}
	second := c.brought(now, two, all.history)
	if only() != nil || second == first {
		t.Error("requests of two versions are taken for one kind")
	}
	now = now.Add(unlike - 1)
	if only() != nil {
		t.Error("a minute has not passed")
	}
	now = now.Add(1)
	if only() != second {
		t.Error("a minute later the kind of the latest is not known")
	}
}

func TestKindsAreBounded(t *testing.T) {
	var all Throttle
	for version := range int64(3 * maxKinds) {
		all.history(Kind{Model: "one", Version: version})
	}
	if len(all.kinds) > maxKinds {
		t.Errorf("%d kinds are remembered, at most %d should be", len(all.kinds), maxKinds)
	}
}
