package host

import (
	"os"
	"path/filepath"
	"syscall"

	"github.com/weftserve/weft/runtime/residency"
)

// synthMemory is what a synthetic model is counted as, and weightsFactor how much more memory an engine is taken to
// need than the model has files: weights that are packed anew for the kernels, and room for what they compute.
const (
	synthMemory   = 1 << 20
	weightsFactor = 1.5
)

// estimate returns how many bytes a version is expected to need.
func estimate(c *residency.Candidate) int64 {
	if c.Manifest.Synth != nil {
		return synthMemory
	}
	size := sizeOf(c.Version.Dir, map[fileID]bool{})
	return int64(weightsFactor * float64(size))
}

// fileID tells files apart, however many names they have.
type fileID struct{ device, inode uint64 }

// sizeOf returns how many bytes the files at a path and below it have, following links, each file once. It leaves out
// those seen, and notes what it counts there.
func sizeOf(path string, seen map[fileID]bool) (size int64) {
	info, err := os.Stat(path)
	if err != nil {
		return 0 // what cannot be read is for the engine to complain of
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		id := fileID{uint64(stat.Dev), stat.Ino} //nolint:unconvert // not the same type everywhere
		if seen[id] {
			return 0
		}
		seen[id] = true
	}
	switch {
	case info.Mode().IsRegular():
		return info.Size()
	case !info.IsDir():
		return 0
	}
	entries, _ := os.ReadDir(path)
	for _, e := range entries {
		size += sizeOf(filepath.Join(path, e.Name()), seen)
	}
	return size
}

// SetMemoryBudget changes Config.MemoryBudget. What failed for want of it is tried again if it suffices now; what is
// resident stays.
func (h *Host) SetMemoryBudget(bytes int64) {
	h.memory.SetLimit(bytes)
	h.memoryFreed()
}
