package openinference

import (
	"errors"
	"fmt"
	"io"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/status"
	"github.com/weftserve/weft/sharedsched"
)

// Part is a part of a region, where the elements of a tensor lie or will. It stays what it is when the region is
// unregistered, until Release. It belongs to one request, and is used by one goroutine at a time.
//
// A region is read and written by system calls and not mapped: its owner may make the file shorter at any time, and the
// server would end by a signal when it touched memory that is no longer there. That costs a copy.
type Part struct {
	// Offset is where the part begins in the region, Size how many bytes it has.
	Offset, Size int64

	registry *Registry
	region   *region
	held     int64 // bytes of it that count in Registry.held; 0: it was not read
}

// Part returns a part of a region. field is the tensor that names it, such as inputs["x"]. The error is a
// *tensor.FieldError, a *status.AbsentError or, where shared memory is off, a *status.UnsupportedError.
func (r *Registry) Part(field, name string, offset, size uint64) (*Part, error) {
	if r == nil {
		return nil, &status.UnsupportedError{What: field + ": shared memory", Instead: sharedOff}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.regions[name]
	if of == nil {
		return nil, absent(field+`.parameters["shared_memory_region"]`, name)
	}
	if has := uint64(of.Size); size > has || offset > has-size { // so that offset+size cannot overflow
		return nil, &tensor.FieldError{
			Field: field + `.parameters["shared_memory_byte_size"]`,
			Want:  fmt.Sprintf("with the offset at most the %d bytes of region %s", has, brief(name)),
			Got:   fmt.Sprintf("%d bytes at offset %d", size, offset),
		}
	}
	of.uses.Add(1) // until Release; under mu, so that Unregister has not closed the file
	return &Part{Offset: int64(offset), Size: int64(size), registry: r, region: of}, nil
}

// sharedOff says what to do where shared memory is off.
const sharedOff = "turn it on with --shared-memory, or send elements in raw_input_contents"

// Name returns the name of the region.
func (p *Part) Name() string { return p.region.Name }

// Release ends the use of the part, and of what was read from it. It must be called once.
func (p *Part) Release() {
	p.registry.held.Add(-p.held)
	p.region.release()
}

// Read returns a copy of the part, in memory of that kind, which the caller gives back. The bytes count once in the
// registry, until Release. The error is a *tensor.FieldError if the part is not there any more, or a
// *sharedsched.Refusal if too much that was read is in use.
func (p *Part) Read(memory tensor.Memory) (*[]byte, error) {
	if p.held == 0 {
		// Counted first and taken back, so that two requests cannot both take the last room.
		if all := p.registry.held.Add(p.Size); all > p.registry.most {
			p.registry.held.Add(-p.Size)
			return nil, &sharedsched.Refusal{
				Reason: sharedsched.RefusedQueueFull,
				Bytes:  p.Size, QueuedBytes: all - p.Size, MaxQueuedBytes: p.registry.most,
			}
		}
		p.held = p.Size
	}
	var turn protect.Turn
	defer turn.End()
	if p.Size > largePart {
		turn.Begin()
	}
	data := memory.Get(int(p.Size))
	if n, err := p.region.file.ReadAt(*data, p.region.Offset+p.Offset); n < len(*data) {
		memory.Put(data)
		return nil, p.lost(n, err)
	}
	return data, nil
}

// largePart is from how many bytes on a part is copied in a protect.Turn. Only as many of them as there are processors
// are copied at a time.
const largePart = 256 << 10

// Write copies data to the beginning of the part, which is as large at least. The error is a *tensor.FieldError if it
// is not there any more.
func (p *Part) Write(data []byte) error {
	var turn protect.Turn
	defer turn.End()
	if len(data) > largePart {
		turn.Begin()
	}
	at := p.region.Offset + p.Offset
	// Written beyond its end a file would grow. Between this and the writing it may still become shorter: then it has
	// again, at most, the bytes that were registered.
	if has, err := sizeOf(p.region.file); err != nil || has < at+int64(len(data)) {
		return p.lost(int(max(0, has-at)), err)
	}
	if n, err := p.region.file.WriteAt(data, at); n < len(data) {
		return p.lost(n, err)
	}
	return nil
}

// lost is the error of a part that has only so many bytes. why is that of the system, io.EOF or nil if the file just
// ends.
func (p *Part) lost(bytes int, why error) error {
	got := fmt.Sprintf("%d bytes: the shared memory is smaller than when it was registered", bytes)
	if why != nil && !errors.Is(why, io.EOF) {
		got = fmt.Sprintf("%d bytes: %v", bytes, why)
	}
	return &tensor.FieldError{
		Want: fmt.Sprintf("%d bytes at offset %d of region %s", p.Size, p.Offset, brief(p.Name())), Got: got,
	}
}
