package tensor

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Slab is memory outside the Go heap that grows on demand and is reused from batch to batch. Its address does not move
// between two calls of Bytes that need no growth, and the garbage collector never looks at it, so native code may keep the
// address. A Slab has one owner and is not safe for concurrent use. The zero value is ready.
type Slab struct{ mem []byte }

const minSlab = 4096

// Bytes returns the first n bytes of the slab, with whatever they held before. Growing invalidates earlier results. It panics when
// the system has no memory left; the host turns that into the failure of the batch.
func (s *Slab) Bytes(n int) []byte {
	if n > len(s.mem) {
		size := max(minSlab, len(s.mem))
		for size < n {
			size *= 2
		}
		s.Free()
		mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			panic(fmt.Sprintf("out of memory: no %d bytes for a batch buffer: %v", size, err))
		}
		s.mem = mem
	}
	return s.mem[:n:n]
}

// Free gives the memory back. The slab may be used again and starts empty.
func (s *Slab) Free() {
	if s.mem != nil {
		// The range was mapped by Bytes and is unmapped once: munmap cannot fail on it.
		_ = unix.Munmap(s.mem)
		s.mem = nil
	}
}

// Cap returns the bytes that the slab holds on to.
func (s *Slab) Cap() int { return len(s.mem) }
