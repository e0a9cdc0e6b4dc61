package tensor

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// Slab is memory outside the Go heap that grows on demand and is reused from batch to batch. Its address does not move
// between two calls of Bytes that need no growth, and the garbage collector never looks at it, so native code may keep the
// address. A Slab has one owner and is not safe for concurrent use. The zero value is ready.
type Slab struct {
	mem    []byte
	pinner Pinner // nil: none
}

// Pinner is told of the memory that slabs map, so that a device may copy to and from it faster. Pin is called before anybody uses the
// memory, Unpin with the same slice before it is unmapped. It is safe for concurrent use.
type Pinner interface {
	Pin(memory []byte)
	Unpin(memory []byte)
}

const minSlab = 4096

// Bytes returns the first n bytes of the slab, with whatever they held before. Growing invalidates earlier results. It panics with
// an *OutOfMemoryError when the system has no memory left, and the slab is then empty; the host turns that into the failure of
// the batch.
func (s *Slab) Bytes(n int) []byte {
	if n > len(s.mem) {
		size := max(minSlab, len(s.mem))
		for size < n && size <= math.MaxInt/2 {
			size *= 2
		}
		size = max(size, n)
		s.Free()
		mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			panic(&OutOfMemoryError{Bytes: size, Err: err})
		}
		s.mem = mem
		if s.pinner != nil {
			s.pinner.Pin(mem)
		}
	}
	return s.mem[:n:n]
}

// Free gives the memory back. The slab may be used again and starts empty.
func (s *Slab) Free() {
	if s.mem != nil {
		if s.pinner != nil {
			s.pinner.Unpin(s.mem)
		}
		// The range was mapped by Bytes and is unmapped once: munmap cannot fail on it.
		_ = unix.Munmap(s.mem)
		s.mem = nil
	}
}

// Cap returns the bytes that the slab holds on to.
func (s *Slab) Cap() int { return len(s.mem) }

// OutOfMemoryError is what Slab.Bytes panics with when the system refuses memory. A smaller batch may fit.
type OutOfMemoryError struct {
	// Bytes is what the slab asked the system for: at least what its owner asked for, and up to twice that.
	Bytes int
	// Err is the system's own error.
	Err error
}

func (e *OutOfMemoryError) Error() string {
	return fmt.Sprintf("out of memory: the system gave no %d bytes for a batch buffer (%v); allow smaller batches "+
		"(batching.max_batch_size) or give the server more memory", e.Bytes, e.Err)
}

// Unwrap returns the system's own error.
func (e *OutOfMemoryError) Unwrap() error { return e.Err }

// OutOfMemory reports true: the host runs the batch again in smaller parts.
func (e *OutOfMemoryError) OutOfMemory() bool { return true }
