package weftest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Children returns the processes that a process has started and that have not ended, on Linux.
func Children(parent int) (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*/stat") // of all: the kernel's list of children may miss some
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ") // from its state on
		if fields := strings.Fields(rest); len(fields) > 1 && fields[0] != "Z" && fields[1] == strconv.Itoa(parent) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			pids = append(pids, pid)
		}
	}
	return pids
}
