//go:build linux

package sandbox

import (
	"maps"
	"os"
	"slices"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// forbidden are the system calls that are refused with EPERM, whatever their arguments. So are all that the library
// does not know, and those of other architectures. All others are allowed: what GPU drivers call differs from one
// release to the next.
var forbidden = slices.Concat(
	// Programs and other processes. ptrace and its like read and write the memory of others.
	[]string{
		"execve", "execveat", "fork", "vfork", "unshare", "setns", "ptrace", "process_vm_readv", "process_vm_writev",
		"process_madvise", "process_mrelease", "kcmp", "pidfd_getfd", "pidfd_send_signal", "tkill", "rt_sigqueueinfo",
		"migrate_pages", "setpriority", "ioprio_set", "sched_setscheduler", "sched_setparam", "sched_setattr",
	},
	// Networks, and sockets of other processes.
	[]string{"connect", "accept", "accept4"},
	// Memory and messages shared with other processes.
	[]string{
		"shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl", "msgget", "msgsnd", "msgrcv", "msgctl",
		"mq_open", "mq_unlink",
	},
	// Ways around a filter, and parts of the kernel with a history of faults.
	[]string{
		"io_uring_setup", "io_uring_enter", "io_uring_register", "bpf", "perf_event_open", "userfaultfd", "add_key",
		"request_key", "keyctl", "open_by_handle_at", "lookup_dcookie", "uselib",
	},
	// What Landlock does not guard: owners, modes, times and attributes of files, and watching them.
	[]string{
		"chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", "utime", "utimes",
		"futimesat", "utimensat", "setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr",
		"fremovexattr", "removexattrat", "truncate", "inotify_add_watch", "fanotify_init", "fanotify_mark",
	},
	// The machine.
	[]string{
		"mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "open_tree_attr", "mount_setattr",
		"fsopen", "fsconfig", "fsmount", "fspick", "quotactl", "quotactl_fd", "swapon", "swapoff", "acct", "reboot",
		"kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "syslog", "vhangup", "iopl",
		"ioperm", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname", "setdomainname",
	},
	// Another user, or more rights.
	[]string{
		"setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setfsuid", "setfsgid", "setgroups",
		"capset",
	},
)

// unseen is a system call whose flags lie in memory, where a filter cannot look. Libraries use clone instead.
const unseen = "clone3"

// ifGPU are the system calls with which NVIDIA's driver makes a socket for other processes. None can use it, since
// accept is refused; the driver does not start without it.
var ifGPU = []string{"bind", "listen"}

// calls returns the filter.
func (p *Policy) calls() (*seccomp.Policy, error) {
	machine, err := arch.GetInfo("")
	if err != nil {
		return nil, err
	}
	limited := p.limited()
	refused := slices.Concat(forbidden, []string{unseen})
	if !p.GPU {
		refused = append(refused, ifGPU...)
	}
	for _, c := range limited {
		refused = append(refused, c.Name) // but for some arguments
	}
	refused = append(refused, "socket")
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(machine.SyscallNames)),
		func(name string) bool { return slices.Contains(refused, name) })
	return &seccomp.Policy{
		DefaultAction: seccomp.ActionErrno, // EPERM
		Syscalls: []seccomp.SyscallGroup{
			{Names: []string{unseen}, Action: enosys},
			{Names: names, Action: seccomp.ActionAllow},
			{NamesWithCondtions: limited, Action: seccomp.ActionAllow},
		},
	}, nil
}

// namespaces are the flags of clone that make a namespace.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// fioSetOwn is FIOSETOWN, which does to a socket what SIOCSPGRP does.
const fioSetOwn = 0x8901

// The kernel takes 32 bits of a request to fcntl and ioctl, and ignores the upper half. A filter compares both: without
// bounds for the upper half a forbidden request would pass with another one.
const (
	upperZero = 1 << 32               // requests are below
	upperSign = 0xffff_ffff_8000_0000 // or at least this: a negative number of 32 bits
)

// limited returns the system calls that are allowed with some arguments only. Those of one call that appears twice are
// alternatives.
func (p *Policy) limited() []seccomp.NameWithConditions {
	self := uint64(os.Getpid())
	only := func(name string, conditions ...seccomp.Condition) seccomp.NameWithConditions {
		return seccomp.NameWithConditions{Name: name, Conditions: conditions}
	}
	is := func(argument uint32, op seccomp.Operation, value uint64) seccomp.Condition {
		return seccomp.Condition{Argument: argument, Operation: op, Value: value}
	}
	local := []seccomp.Condition{
		is(0, seccomp.Equal, unix.AF_UNIX),
		is(1, seccomp.BitsNotSet, unix.SOCK_DGRAM), // which can be sent to anybody without connect; nor SOCK_RAW
	}
	all := []seccomp.NameWithConditions{
		// Threads.
		only("clone", is(0, seccomp.BitsSet, unix.CLONE_THREAD), is(0, seccomp.BitsNotSet, namespaces)),
		// Signals to itself.
		only("kill", is(0, seccomp.Equal, self)),
		only("tgkill", is(0, seccomp.Equal, self)),
		only("rt_tgsigqueueinfo", is(0, seccomp.Equal, self)),
		// Not to have others signalled when something happens to a file.
		only("fcntl", is(1, seccomp.LessThan, upperZero), is(1, seccomp.NotEqual, unix.F_SETOWN),
			is(1, seccomp.NotEqual, unix.F_SETOWN_EX)),
		only("ioctl", is(1, seccomp.LessThan, upperZero), is(1, seccomp.NotEqual, fioSetOwn),
			is(1, seccomp.NotEqual, unix.SIOCSPGRP)),
		only("ioctl", is(1, seccomp.GreaterOrEqual, upperSign)),
		// Its own limits.
		only("prlimit64", is(0, seccomp.Equal, 0)),
		only("socketpair", local...),
	}
	if p.GPU {
		all = append(all, only("socket", local...))
	}
	return all
}
