package tensor

import "math"

// Slab is memory outside the Go heap that grows on demand and is reused from batch to batch. Its address does not move
// between two calls of Bytes that need no growth, and the garbage collector never looks at it, so native code may keep
// the address. A Slab has one owner and is not safe for concurrent use. The zero value is ready.
type Slab struct {
	mem    []byte
	memory Allocator // nil: SystemMemory
}

const minSlab = 4096

// Bytes returns the first n bytes of the slab, with whatever they held before. Growing invalidates earlier results. It
// panics with an *OutOfMemoryError when the system has no memory left, and the slab is then empty; the host turns that
// into the failure of the batch.
func (s *Slab) Bytes(n int) []byte {
	if n > len(s.mem) {
		size := max(minSlab, len(s.mem))
		for size < n && size <= math.MaxInt/2 {
			size *= 2
		}
		size = max(size, n)
		s.Free()
		mem, err := s.allocator().Allocate(size)
		if err != nil {
			panic(&OutOfMemoryError{Bytes: size, Err: err})
		}
		s.mem = mem
	}
	return s.mem[:n:n]
}

// Free gives the memory back. The slab may be used again and starts empty.
func (s *Slab) Free() {
	if s.mem != nil {
		s.allocator().Free(s.mem)
		s.mem = nil
	}
}

func (s *Slab) allocator() Allocator {
	if s.memory == nil {
		return SystemMemory{}
	}
	return s.memory
}

// Cap returns the bytes that the slab holds on to.
func (s *Slab) Cap() int { return len(s.mem) }
