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
	slabs map[uint32][]byte
}

func newSlabTable() *slabTable {
	t := &slabTable{slabs: map[uint32][]byte{}}
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
	t.slabs[id] = memory
	t.added.Broadcast()
	return nil
}

func (t *slabTable) remove(id uint32) {
	t.mu.Lock()
	memory := t.slabs[id]
	delete(t.slabs, id)
	t.mu.Unlock()
	if memory != nil {
		_ = unix.Munmap(memory)
	}
}

// slabPatience is how long a run waits for the message that maps its slab, which was sent before.
const slabPatience = 10 * time.Second

// get returns a slab; none for 0. The message that maps it may still be on its way.
func (t *slabTable) get(id uint32) ([]byte, error) {
	if id == 0 {
		return nil, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if memory := t.slabs[id]; memory != nil {
		return memory, nil
	}
	late := time.AfterFunc(slabPatience, t.added.Broadcast)
	defer late.Stop()
	for end := time.Now().Add(slabPatience); time.Now().Before(end); {
		t.added.Wait()
		if memory := t.slabs[id]; memory != nil {
			return memory, nil
		}
	}
	return nil, fmt.Errorf("slab %d was never mapped", id)
}
