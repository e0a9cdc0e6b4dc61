// Package affinity binds the child processes of programs that measure to processors.
package affinity

// Foremost is the niceness of what is measured, so that other work on the machine disturbs it less; Usual is that of
// other programs.
const (
	Foremost = -20
	Usual    = 0
)
