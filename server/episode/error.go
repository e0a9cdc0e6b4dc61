package episode

import (
	"errors"
	"fmt"

	"github.com/weftserve/weft/server/routing"
)

// Refused reports whether an error says that a step had no episode to be one of, which no version is to blame for.
func Refused(err error) bool {
	_, lost := errors.AsType[*LostError](err)
	_, stale := errors.AsType[*StaleError](err)
	_, full := errors.AsType[*FullError](err)
	return lost || stale || full
}

// LostError says that there is no such episode to go on with.
type LostError struct {
	Key
	Why End   // "": it is not known
	Of  int64 // the version that has its state, which is another one than is to answer; 0: it is not there
}

func (e *LostError) Error() string {
	why := "it was never begun here, has ended, was idle for too long, or this server was started since"
	switch {
	case e.Of != 0:
		why = fmt.Sprintf("version %d answered it, and another one may not go on (state.on_version_change)", e.Of)
	case e.Why == ByRequest:
		why = "it was ended, by its last request or a report of its outcome"
	case e.Why == WithStream:
		why = "it ended with its stream (state.bind)"
	}
	return fmt.Sprintf("model %s has no state for episode %s: %s; begin it anew (begin_episode, or "+
		"sequence_start), with the state inputs if you have kept the outputs of a step", routing.Quote(e.Model),
		routing.Quote(e.Episode), why)
}

// StaleError says that later steps of the episode were answered.
type StaleError struct {
	Key
	Step, Latest uint64
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("step %d of episode %s comes after step %d was answered, which cannot be undone; expected %d to "+
		"try that one again, or a higher number, also to begin again", e.Step, routing.Quote(e.Episode), e.Latest, e.Latest)
}

// FullError says that there is no room for the state of an episode.
type FullError struct {
	Key
	Episodes            int // that the model has, which is as many as it may; 0: memory is short
	Bytes, Need, Memory int64
}

func (e *FullError) Error() string {
	if e.Episodes > 0 {
		return fmt.Sprintf("model %s has %d episodes, as many as it may (state.max_episodes); end some (end_of_episode), or "+
			"wait until idle ones end", routing.Quote(e.Model), e.Episodes)
	}
	return fmt.Sprintf("the state of episode %s needs %d bytes, and %d of %d are taken (--state-memory); end some "+
		"episodes (end_of_episode), or wait until idle ones end", routing.Quote(e.Episode), e.Need, e.Bytes, e.Memory)
}
