//go:build linux

package worker

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// slab is memory of the server that a worker maps too. Its size is sealed, so that neither can take a page from under
// the other.
type slab struct {
	id     uint32
	file   int
	memory []byte
	mapped atomic.Pointer[process] // the process that has it mapped; nil: none
}

// memory gives the slabs of one session. It is a tensor.Allocator.
type memory struct {
	mu    sync.Mutex
	slabs map[*byte]*slab // guarded by mu; by first byte
}

// slabs counts the slabs of this process.
var slabs atomic.Uint32

// Allocate returns shared memory, which is zero.
func (m *memory) Allocate(size int) ([]byte, error) {
	s := &slab{id: slabs.Add(1)}
	var err error
	if s.file, s.memory, err = share("weft batch", size); err != nil {
		if !errors.Is(err, unix.ENOMEM) { // else a smaller batch may fit
			err = lacking(err)
		}
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.slabs[unsafe.SliceData(s.memory)] = s
	return s.memory, nil
}

// Free unmaps a slab here and in the worker.
func (m *memory) Free(b []byte) {
	first := unsafe.SliceData(b)
	m.mu.Lock()
	s := m.slabs[first]
	delete(m.slabs, first)
	m.mu.Unlock()
	if p := s.mapped.Load(); p != nil {
		_ = p.send(&message{Kind: unmapMessage, ID: s.id}) // a dead one has nothing mapped
	}
	_ = unix.Munmap(s.memory)
	_ = unix.Close(s.file)
}

// find returns the slab that begins with b; nil if there are no bytes.
func (m *memory) find(b []byte) (*slab, error) {
	if cap(b) == 0 {
		return nil, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.slabs[unsafe.SliceData(b)]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("a tensor of %d bytes lies outside the session's memory", len(b))
}

// share returns zeroed memory that another process may map by its file, and cannot resize.
func share(name string, size int) (file int, mapped []byte, err error) {
	if file, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING); err != nil {
		return -1, nil, fmt.Errorf("memfd_create: %w", err)
	}
	defer func() {
		if err != nil {
			_ = unix.Close(file)
		}
	}()
	if err = unix.Ftruncate(file, int64(size)); err != nil {
		return -1, nil, err
	}
	const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if _, err = unix.FcntlInt(uintptr(file), unix.F_ADD_SEALS, seals); err != nil {
		return -1, nil, err
	}
	mapped, err = mapShared(file, size)
	return file, mapped, err
}

func mapShared(file, size int) ([]byte, error) {
	return unix.Mmap(file, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

// closeInherited closes the descriptors that a process has from the server but should not: all that are not closed by
// execve, but the standard ones. The server's own are closed by it; the ones it was started with may not be.
func closeInherited() {
	all, _ := os.ReadDir("/proc/self/fd") // without /proc there is nothing that could be done
	for _, entry := range all {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd <= unix.Stderr {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
}
