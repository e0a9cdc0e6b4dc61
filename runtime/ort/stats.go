package ort

import "github.com/weftserve/weft/runtime/engine"

// Stats reports how the session's runs were executed, and their part of its device's memory. It takes no lock. Graph
// failures are the shapes that could not be captured, or whose graph gave other answers than a run without, and one
// more when the session has given up graphs as a whole, also if that was when it was opened. A shape that only waits
// for memory is not counted.
func (s *Session) Stats() engine.Stats {
	return engine.Stats{
		Graphs: engine.Graphs{
			Known: true, Replayed: s.counts.replayed.Load(), Eager: s.counts.eager.Load(),
			Failures: s.counts.failed.Load(),
		},
		Memory: engine.Memory{Known: true, Peak: s.memory.peak.Load(), Held: s.memory.held.Load()},
	}
}
