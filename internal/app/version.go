package app

import "runtime/debug"

// Version returns the version that the Go command stamped: a release, or a commit.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "of unknown version"
	}
	return info.Main.Version
}
