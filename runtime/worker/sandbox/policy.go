// Package sandbox confines a process for good: to the files that it needs, without a network, and without a way to
// other processes or programs. Landlock guards files, seccomp the rest.
package sandbox

// Policy says what a confined process may still do.
type Policy struct {
	// Readable are folders and files that may be read. One that is not there when the policy is applied stays closed.
	Readable []string `json:"readable,omitempty"`
	// GPU allows what NVIDIA's driver needs: its device nodes and files, and a Unix socket that nobody can reach.
	GPU bool `json:"gpu,omitempty"`
}

// Report says what is in force.
type Report struct {
	// Landlock is the version of the kernel's Landlock ABI; 0: files are not guarded.
	Landlock int `json:"landlock"`
	// Missing says what is not denied, and why; none: everything is.
	Missing []string `json:"missing,omitempty"`
}
