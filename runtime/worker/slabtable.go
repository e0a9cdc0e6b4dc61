//go:build linux

package worker

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// slabTable is the slabs that a worker has mapped.
type slabTable struct {
	mu    sync.Mutex
	added *sync.Cond // a slab was mapped
	slabs map[uint32]*mapped
}

// mapped is a slab that a worker has mapped.
type mapped struct {
	memory []byte

	mu    sync.Mutex
	unpin func() // guarded by mu; nil: it is not page-locked
}

func newSlabTable() *slabTable {
	t := &slabTable{slabs: map[uint32]*mapped{}}
	t.added = sync.NewCond(&t.mu)
	return t
}

// add maps a slab. It owns the file.
func (t *slabTable) add(id uint32, file int, size uint64) error {
	defer unix.Close(file)
	var is unix.Stat_t
	if err := unix.Fstat(file, &is); err != nil {
		return fmt.Errorf("slab %d: %w", id, err)
	}
	if uint64(is.Size) < size {
		return fmt.Errorf("slab %d has %d bytes, expected %d", id, is.Size, size)
	}
	memory, err := mapShared(file, int(size))
	if err != nil {
		return fmt.Errorf("cannot map slab %d: %w", id, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.slabs[id] = &mapped{memory: memory}
	t.added.Broadcast()
	return nil
}

func (t *slabTable) remove(id uint32) {
	t.mu.Lock()
	m := t.slabs[id]
	delete(t.slabs, id)
	t.mu.Unlock()
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unpin != nil {
		m.unpin()
	}
	_ = unix.Munmap(m.memory)
}

// slabPatience is how long a run waits for the message that maps its slab, which was sent before.
const slabPatience = 10 * time.Second

// get returns a slab for a run, and page-locks it at its first one where pin is not nil; no slab for 0. The message
// that maps it may still be on its way.
func (t *slabTable) get(id uint32, pin func(memory []byte) (unpin func())) ([]byte, error) {
	if id == 0 {
		return nil, nil
	}
	m, err := t.find(id)
	if err != nil {
		return nil, err
	}
	if pin != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.unpin == nil {
			m.unpin = pin(m.memory)
		}
	}
	return m.memory, nil
}

func (t *slabTable) find(id uint32) (*mapped, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m := t.slabs[id]; m != nil {
		return m, nil
	}
	late := time.AfterFunc(slabPatience, t.added.Broadcast)
	defer late.Stop()
	for end := time.Now().Add(slabPatience); time.Now().Before(end); {
		t.added.Wait()
		if m := t.slabs[id]; m != nil {
			return m, nil
		}
	}
	return nil, fmt.Errorf("slab %d was never mapped", id)
}
