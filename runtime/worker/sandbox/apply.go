//go:build linux

package sandbox

import (
	"fmt"
	"runtime"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/landlock-lsm/go-landlock/landlock"
	llsys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// truncates is the first version of Landlock's ABI that can refuse to have a file truncated that may be read.
const truncates = 3

// Apply confines all threads of the process, those of native code too, and all that they start. It goes as far as the
// kernel can. Nothing undoes it.
func (p *Policy) Apply() (r Report) {
	missing := func(format string, args ...any) { r.Missing = append(r.Missing, fmt.Sprintf(format, args...)) }
	if version, err := llsys.LandlockGetABIVersion(); err != nil {
		missing("files are not guarded, because there is no Landlock: %v", err)
	} else if err := p.guardFiles(); err != nil {
		missing("files are not guarded: %v", err)
	} else if r.Landlock = version; version < truncates {
		missing("readable files can be truncated, because the kernel's Landlock has version %d, not %d", version, truncates)
	}
	if err := p.filterCalls(); err != nil { // last: Landlock is applied by system calls
		missing("network, programs and other processes are not guarded: %v", err)
	}
	return r
}

// guardFiles applies Landlock.
func (p *Policy) guardFiles() error {
	all := landlock.V11
	// Before version 8 each thread becomes a domain of its own, and with scopes threads could not signal each other on
	// some kernels. The filter refuses signals, and connections to abstract sockets, on all.
	all.Scoped = 0
	return all.BestEffort().Restrict(p.rules()...)
}

// Flags of seccomp(2) that the library does not name.
const (
	specAllow  = 1 << 2 // without the processor's mitigations within a process, which would slow down models
	tsyncESRCH = 1 << 4 // fail if a thread cannot have the filter, instead of answering with its number
)

// filterCalls applies seccomp.
func (p *Policy) filterCalls() error {
	calls, err := p.calls()
	if err != nil {
		return err
	}
	runtime.LockOSThread() // no_new_privs is the thread's until the filter has all threads take it over
	defer runtime.UnlockOSThread()
	return seccomp.LoadFilter(seccomp.Filter{
		NoNewPrivs: true, Flag: seccomp.FilterFlagTSync | specAllow | tsyncESRCH, Policy: *calls,
	})
}

// enosys has a system call answered as by a kernel that does not have it.
const enosys = seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)
