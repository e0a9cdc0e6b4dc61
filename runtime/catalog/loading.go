package catalog

import (
	"fmt"
	"time"
)

// Stage is what a version that is being loaded waits for, or goes through.
type Stage uint8

// The stages, in their order; a version waits before it is opened and before it is proven.
const (
	StageWaiting   Stage = iota // for its turn, since few are opened and proven at once, or for a device or memory
	StageCopying                // of its files, in bytes
	StageOpening                // of the engine's session; where workers run models, with the first made-up row
	StageProving                // runs made-up rows: whether they may share executions
	StageWarmingUp              // runs the requests that its manifest names
)

// String returns the stage as logs have it.
func (s Stage) String() string {
	return [...]string{"waiting", "copying", "opening", "proving", "warming_up"}[s]
}

// LoadProgress is how far the load of a version is.
type LoadProgress struct {
	Stage Stage
	// Done and Of count bytes where files are copied, and runs where rows are proven or the version is warmed up. Of is
	// how many there are to be as far as that is known: a proof may take fewer or find that it needs more. Both are 0
	// where nothing is counted.
	Done, Of int64
	Since    time.Time // when the load began; zero: it has not
	// Slow: its rows are being proven for so long that other models are not to wait for it.
	Slow bool
}

// Phrase returns the stage in words, with the count, as in "proving batching 12 of 40".
func (l *LoadProgress) Phrase() string {
	text := [...]string{
		"waiting for its turn", "copying files", "opening the session", "proving batching", "warming up",
	}[l.Stage]
	switch {
	case l.Of == 0:
		return text
	case l.Stage == StageCopying:
		return fmt.Sprintf("%s %.1f of %.1f MB", text, float64(l.Done)/1e6, float64(l.Of)/1e6)
	}
	return fmt.Sprintf("%s %d of %d", text, l.Done, l.Of)
}
