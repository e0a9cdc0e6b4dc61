package fleet

import (
	"os"
	"path/filepath"
	"syscall"
)

// weightsFactor is how much more memory an engine is taken to need than the model has files: weights that are packed
// again for the kernels, and room for their results.
const weightsFactor = 1.5

// Estimate returns how many bytes a model with its files in a directory is expected to need in memory. It counts all
// files below the directory, whatever they are for: the graph has not been read yet.
func Estimate(dir string) int64 {
	return int64(weightsFactor * float64(sizeOf(dir, map[fileID]bool{})))
}

// fileID distinguishes files, however many names they have.
type fileID struct{ device, inode uint64 }

// sizeOf returns the bytes of the files at a path and below it. It follows links, and counts each file once: seen has
// the files counted so far, so that a link to a parent ends the descent.
func sizeOf(path string, seen map[fileID]bool) (size int64) {
	info, err := os.Stat(path)
	if err != nil {
		return 0 // the engine complains of a file that cannot be read
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
