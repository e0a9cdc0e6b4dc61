package host

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/weftserve/weft/runtime/catalog"
)

// memory keeps count of what resident versions take, by estimate. Its lock is a leaf.
type memory struct {
	budget int64 // bytes; 0: no bound

	mu    sync.Mutex
	held  map[*holding]struct{} // guarded by mu
	inUse int64                 // guarded by mu; the sum of held
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
	size := sizeOf(c.version.Dir, map[string]bool{})
	return int64(weightsFactor * float64(size))
}

// sizeOf returns how many bytes the files at a path and below it have, following links, each file once. It leaves out those seen,
// and notes what it counts there.
func sizeOf(path string, seen map[string]bool) (size int64) {
	// What cannot be read is for the engine to complain of.
	path, err := filepath.EvalSymlinks(path)
	if err != nil || seen[path] {
		return 0
	}
	seen[path] = true
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return 0
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

// take reserves the memory of a version that is to be loaded, for give to give back. The error is a *catalog.MemoryError.
func (m *memory) take(c candidate) (*holding, error) {
	h := &holding{c.model, c.version.Number, c.estimate()}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.budget > 0 && m.inUse+h.bytes > m.budget {
		e := &catalog.MemoryError{Model: h.model, Version: h.version, Need: h.bytes, InUse: m.inUse, Budget: m.budget}
		for r := range m.held {
			e.Residents = append(e.Residents, catalog.Resident{Model: r.model, Version: r.version, Bytes: r.bytes})
		}
		slices.SortFunc(e.Residents, func(a, b catalog.Resident) int {
			return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Version, b.Version))
		})
		return nil, e
	}
	if m.held == nil {
		m.held = map[*holding]struct{}{}
	}
	m.held[h] = struct{}{}
	m.inUse += h.bytes
	return h, nil
}

// free returns how many bytes could be taken now, where there is a budget.
func (m *memory) free() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.budget - m.inUse
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
