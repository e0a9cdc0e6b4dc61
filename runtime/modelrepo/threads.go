package modelrepo

import (
	"fmt"
	"strconv"
)

// Threads is the number of threads of an execution: 1 or more, or AutoThreads.
type Threads int

// AutoThreads is written auto: one, and for a large model more, as far as there are processors.
const AutoThreads Threads = -1

// maxThreads keeps a number from being a typing error.
const maxThreads = 256

// UnmarshalText reads a number of at least 1, or auto.
func (t *Threads) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*t = AutoThreads
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 || n > maxThreads {
		return fmt.Errorf("expected a number from 1 to %d, or auto, found %q", maxThreads, text)
	}
	*t = Threads(n)
	return nil
}

// MarshalYAML gives the form that was read.
func (t Threads) MarshalYAML() (any, error) {
	if t == AutoThreads {
		return "auto", nil
	}
	return int(t), nil
}
