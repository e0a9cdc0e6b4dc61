//go:build !linux

package affinity

import "errors"

var errLinux = errors.New("this program binds processes to processors and reads /proc; run it on Linux")

// Own fails: only Linux tells.
func Own() ([]int, error) { return nil, errLinux }

// Start fails: only Linux binds processes.
func Start([]int, int, func() error) error { return errLinux }
