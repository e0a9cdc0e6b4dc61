package sim

import (
	"time"

	"github.com/weftserve/weft/sharedsched"
)

// CoreOptions change the real scheduler for experiments. The zero value is the scheduler that the server runs.
type CoreOptions struct {
	Config   func(*sharedsched.Config)
	Settings func(*Model, *sharedsched.Settings) // of each model's version
	Handover time.Duration                       // see sharedsched.Device
	// Forgetful keeps from the scheduler which batches ran out of memory.
	Forgetful bool
	// Decided is called after every decision, with the scheduler's own time.
	Decided func(*sharedsched.Core, Time)
}

// coreSettings returns the settings that the server gives a version of m by default.
func coreSettings(m *Model) sharedsched.Settings {
	return sharedsched.Settings{
		Batched: m.MaxBatch > 1, MaxBatchSize: m.MaxBatch, MaxBatchCost: m.MaxCost, Adaptive: true, RowMemory: m.RowMemory,
	}
}

// Core returns the maker of the real scheduler.
func Core(name string, o CoreOptions) Maker {
	return Maker{Name: name, New: func(env *Env) Policy { return newCorePolicy(env, o) }}
}
