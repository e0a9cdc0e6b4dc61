//go:build !linux

package loadgen

// newSleeper returns the most exact sleeper that there is here.
func newSleeper() sleeper { return timerSleeper{} }
