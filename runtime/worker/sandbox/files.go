//go:build linux

package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/landlock-lsm/go-landlock/landlock"
	llsys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Rights to a file, or to all files of a folder.
const (
	read   = llsys.AccessFSReadFile | llsys.AccessFSReadDir
	write  = llsys.AccessFSWriteFile
	use    = read | write | llsys.AccessFSIoctlDev // a device
	change = read | write | llsys.AccessFSTruncate | llsys.AccessFSMakeReg | llsys.AccessFSMakeDir |
		llsys.AccessFSRemoveFile | llsys.AccessFSRemoveDir

	ofFiles = llsys.AccessFSReadFile | write | llsys.AccessFSIoctlDev | llsys.AccessFSTruncate
)

// system are the files that the dynamic linker, the C library and ONNX Runtime read: libraries, and what the process
// and its processors are.
var system = []string{
	"/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64", "/usr/share/locale",
	"/etc/ld.so.cache",
	"/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/version", "/proc/sys/vm/overcommit_memory",
	"/sys/devices", "/sys/fs/cgroup", "/sys/kernel/mm/transparent_hugepage", "/dev/urandom", "/dev/random",
}

// nvidia are patterns of the files that NVIDIA's libraries read.
var nvidia = []string{
	"/usr/local/cuda*", "/usr/local/nvidia", "/usr/share/nvidia", "/etc/nvidia", "/proc/driver/nvidia*",
	"/proc/devices", "/proc/modules", "/proc/filesystems", "/proc/sys/vm/mmap_min_addr", "/sys/bus/pci", "/sys/module",
}

// rules returns what Landlock is to leave open.
func (p *Policy) rules() (all []landlock.Rule) {
	allow := func(rights landlock.AccessFSSet, paths ...string) {
		for _, path := range paths {
			info, err := os.Stat(path)
			if err != nil {
				continue
			}
			its := rights
			if !info.IsDir() {
				its &= ofFiles
			}
			all = append(all, landlock.PathAccess(its, path).IgnoreIfMissing())
			if strings.HasPrefix(path, "/proc/") {
				pin(path)
			}
		}
	}
	allow(read, system...)
	allow(use&^llsys.AccessFSIoctlDev, "/dev/null", "/dev/zero")
	allow(read, p.Readable...)
	for _, variable := range []string{"LD_LIBRARY_PATH", "LOCPATH"} { // of the linker, and for locales
		allow(read, slices.DeleteFunc(filepath.SplitList(os.Getenv(variable)),
			func(folder string) bool { return !filepath.IsAbs(folder) })...)
	}
	if !p.GPU {
		return all
	}
	for _, pattern := range nvidia {
		allow(read, matches(pattern)...)
	}
	allow(use, matches("/dev/nvidia*")...)
	// Names of threads: the driver opens them as files to be cut to nothing, and does not start if it may not.
	allow(write|llsys.AccessFSTruncate, "/proc/self/task")
	if cache := os.Getenv("CUDA_CACHE_PATH"); filepath.IsAbs(cache) {
		allow(change, cache)
	}
	return all
}

func matches(pattern string) []string {
	paths, _ := filepath.Glob(pattern) // the error would be of the pattern
	return paths
}

// pin keeps a rule for a path below /proc in force: a rule holds for an inode, and /proc forgets inodes that nobody has
// open when memory is short, and makes others.
func pin(path string) { _, _ = unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0) }
