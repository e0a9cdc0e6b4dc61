package tensor

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Allocator gives the memory that batches lie in: outside the Go heap, at addresses that do not move. An engine that
// reads it from another process, or by a device's own copies, has one of its own. It is safe for concurrent use.
type Allocator interface {
	// Allocate returns so many bytes, at least one, that begin at a page. The error says why there are none.
	Allocate(size int) ([]byte, error)
	// Free takes back a slice that Allocate returned, the same one, once nobody uses it any more.
	Free(memory []byte)
}

// SystemMemory is the Allocator of memory that only this process sees.
type SystemMemory struct{}

// Allocate maps zeroed memory.
func (SystemMemory) Allocate(size int) ([]byte, error) {
	return unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

// Free unmaps memory.
func (SystemMemory) Free(memory []byte) {
	_ = unix.Munmap(memory) // memory that was mapped as a whole, and is unmapped once, cannot fail
}

// OutOfMemoryError is the value that Slab.Bytes panics with when there is no memory for a batch. A smaller batch may
// fit.
type OutOfMemoryError struct {
	// Bytes is how much the slab asked for: at least as much as its owner asked for, and up to twice that.
	Bytes int
	// Err is the allocator's error.
	Err error
}

func (e *OutOfMemoryError) Error() string {
	return fmt.Sprintf("out of memory: the system gave no %d bytes for a batch buffer (%v); allow smaller batches "+
		"(batching.max_batch_size) or give the server more memory", e.Bytes, e.Err)
}

// Unwrap returns the allocator's error.
func (e *OutOfMemoryError) Unwrap() error { return e.Err }
