package sim

import (
	"time"

	"github.com/weftserve/weft/sharedsched"
)

// CoreOptions change the real scheduler for experiments. The zero value is the scheduler that the server runs.
type CoreOptions struct {
	Config   func(*sharedsched.Config)
	Settings func(*Model, *sharedsched.Settings) // of each model's version
	// Handover makes it a GPU: two lanes that share its time; see sharedsched.Device. 0: one batch at a time.
	Handover time.Duration
	// Forgetful keeps from the scheduler which batches ran out of memory.
	Forgetful bool
	// Decided is called after every decision, with the scheduler's own time.
	Decided func(*sharedsched.Core, Time)
}

// coreSettings returns the settings that the server gives a version of m by default.
func coreSettings(m *Model) sharedsched.Settings {
	return sharedsched.Settings{
		Batched: m.MaxBatch > 1, MaxBatchSize: m.MaxBatch, MaxBatchCost: m.MaxCost, RowMemory: m.RowMemory,
	}
}

// Core returns the maker of the real scheduler.
func Core(name string, o CoreOptions) Maker {
	m := Maker{Name: name, New: func(env *Env) Policy { return newCorePolicy(env, o) }}
	if o.Handover > 0 {
		m.Lanes = func(int) int { return 2 }
	}
	return m
}
