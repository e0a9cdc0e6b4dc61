// Package sandbox confines a process for good: to the files that it needs, without a network, and without a way to
// other processes or programs. Landlock guards files, seccomp the rest.
package sandbox
