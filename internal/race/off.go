//go:build !race

// Package race tells tests whether they run under the race detector, for tests that take long there and race no more
// than others.
package race

// Enabled is whether the program was built with the race detector.
const Enabled = false
