package host

import (
	"cmp"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/residency"
)

// memory keeps count of what resident versions take, by estimate. Its lock is a leaf.
type memory struct {
	mu     sync.Mutex
	budget int64                 // guarded by mu; bytes; 0: no bound
	held   map[*holding]struct{} // guarded by mu
	inUse  int64                 // guarded by mu; the sum of held
}

// holding is the memory of one version. Immutable.
type holding struct {
	model   string
	version int64
	bytes   int64
}

// synthMemory is what a synthetic model is counted as, and weightsFactor how much more memory an engine is taken to need than
// the model has files: weights that are packed anew for the kernels, and room for what they compute.
const (
	synthMemory   = 1 << 20
	weightsFactor = 1.5
)

// estimate returns how many bytes a version is expected to need.
func (c *candidate) estimate() int64 {
	if c.manifest.Synth != nil {
		return synthMemory
	}
	size := sizeOf(c.version.Dir, map[fileID]bool{})
	return int64(weightsFactor * float64(size))
}

// fileID tells files apart, however many names they have.
type fileID struct{ device, inode uint64 }

// sizeOf returns how many bytes the files at a path and below it have, following links, each file once. It leaves out those seen,
// and notes what it counts there.
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

// fits returns a *catalog.MemoryError if the budget has no room for so many bytes of a version now.
func (m *memory) fits(c candidate, bytes int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fitsLocked(c, bytes)
}

func (m *memory) fitsLocked(c candidate, bytes int64) error {
	if m.budget == 0 || m.inUse+bytes <= m.budget {
		return nil
	}
	e := &catalog.MemoryError{Model: c.model, Version: c.version.Number, Need: bytes, InUse: m.inUse, Budget: m.budget}
	for r := range m.held {
		e.Residents = append(e.Residents, catalog.Resident{Model: r.model, Version: r.version, Bytes: r.bytes})
	}
	slices.SortFunc(e.Residents, func(a, b catalog.Resident) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Version, b.Version))
	})
	return e
}

// take reserves the memory of a version that is to be loaded, for give to give back. The error is a *catalog.MemoryError.
func (m *memory) take(c candidate, bytes int64) (*holding, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fitsLocked(c, bytes); err != nil {
		return nil, err
	}
	h := &holding{c.model, c.version.Number, bytes}
	if m.held == nil {
		m.held = map[*holding]struct{}{}
	}
	m.held[h] = struct{}{}
	m.inUse += h.bytes
	return h, nil
}

// free returns how many bytes could be taken now.
func (m *memory) free() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.budget == 0 {
		return math.MaxInt64
	}
	return m.budget - m.inUse
}

// SetMemoryBudget changes Config.MemoryBudget. What failed for want of it is tried again if it suffices now; what is resident stays.
func (h *Host) SetMemoryBudget(bytes int64) {
	h.memory.mu.Lock()
	h.memory.budget = bytes
	h.memory.mu.Unlock()
	h.step(residency.MemoryFreed{Free: h.memory.free()})
}

// give takes memory back.
func (m *memory) give(h *holding) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, is := m.held[h]; !is { // it was given back already, since a device was lost
		return
	}
	delete(m.held, h)
	m.inUse -= h.bytes
}
