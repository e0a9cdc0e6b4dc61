//go:build race

package race

import "testing"

// Enabled is whether the program was built with the race detector.
const Enabled = true

func Skip(t testing.TB, why string) { t.Skip(why) }
