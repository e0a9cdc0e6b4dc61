package worker

import (
	"testing"

	"golang.org/x/sys/unix"
)

// A slab is page-locked once, at the first run of a session that asks for it, and unlocked before it is unmapped.
func TestSlabsArePinned(t *testing.T) {
	table := newSlabTable()
	var pinned, unpinned int
	pin := func(memory []byte) func() {
		pinned++
		memory[0]++ // it is mapped
		return func() {
			unpinned++
			memory[0]++
		}
	}
	for id := range uint32(2) {
		file, memory, err := share("test", 4096)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Munmap(memory); err != nil {
			t.Fatal(err)
		}
		if err := table.add(id+1, file, 4096); err != nil {
			t.Fatal(err)
		}
	}
	get := func(id uint32, pin func([]byte) func()) {
		t.Helper()
		if memory, err := table.get(id, pin); err != nil || len(memory) != map[uint32]int{1: 4096, 2: 4096}[id] {
			t.Errorf("slab %d has %d bytes, %v", id, len(memory), err)
		}
	}
	get(0, pin)
	get(1, nil)
	if pinned != 0 {
		t.Error("pinned for nobody")
	}
	get(1, pin)
	get(1, pin)
	get(2, nil)
	table.remove(2)
	if pinned != 1 || unpinned != 0 {
		t.Errorf("pinned %d times, unpinned %d; want 1 and 0", pinned, unpinned)
	}
	table.remove(1)
	table.remove(1)
	if pinned != 1 || unpinned != 1 {
		t.Errorf("in the end: pinned %d times, unpinned %d", pinned, unpinned)
	}
}
