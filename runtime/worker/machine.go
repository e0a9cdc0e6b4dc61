package worker

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// DefaultMemory returns the bound on a worker's memory where none is set: three quarters of what this process may
// have, which is the machine's memory or the least bound of its control groups. The rest is for the server, for the
// worker's quarantine, and for a run that is ended a little late: beyond all of it the system ends processes of its own
// choice. 0: it is not known.
func DefaultMemory() int64 { return available("/") / 4 * 3 }

// available returns the bytes of memory that this process may have, by the files below root.
func available(root string) int64 {
	least := machineMemory(filepath.Join(root, "proc/meminfo"))
	groups, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup")) // without it there are none
	for line := range strings.Lines(string(groups)) {
		// Number, controllers, path: version 2 has number 0 and names none. A group is bound by those above it, too.
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		dir, name := "sys/fs/cgroup", "memory.max"
		if parts[1] == "memory" {
			dir, name = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		} else if parts[1] != "" {
			continue
		}
		for path := filepath.Clean("/" + parts[2]); ; path = filepath.Dir(path) {
			text, err := os.ReadFile(filepath.Join(root, dir, path, name))
			if n, wrong := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && wrong == nil && n > 0 {
				least = min(least, n)
			}
			if path == "/" {
				break
			}
		}
	}
	return least
}

// machineMemory returns the machine's memory in bytes; 0 if the file does not say.
func machineMemory(meminfo string) int64 {
	text, _ := os.ReadFile(meminfo) // the answer is then 0
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line) // MemTotal: 24576 kB
		if len(fields) == 3 && fields[0] == "MemTotal:" {
			n, _ := strconv.ParseInt(fields[1], 10, 64)
			return n << 10
		}
	}
	return 0
}
