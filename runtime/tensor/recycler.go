package tensor

import (
	"math/bits"
	"slices"
	"sync"
	"time"
)

// Memory is where messages, and the tensors in them, lie while they are handed from one part to the next. Safe for
// concurrent use.
type Memory interface {
	// Get returns so many bytes, with whatever they held before.
	Get(size int) *[]byte
	// Put takes memory that nobody refers to any more, so that Get returns it again. Memory that is never put is left to
	// the garbage collector.
	Put(data *[]byte)
}

// room returns so many bytes of a memory, of the garbage collector's if there is none.
func room(m Memory, size int) []byte {
	if m == nil {
		return make([]byte, size)
	}
	return *m.Get(size)
}

// Recycler is a Memory that hands memory of the Go heap on without clearing it. The zero value is ready.
//
// Small pieces are the garbage collector's to drop. Of large ones some are always in use and some not, as requests come
// and go, and each collection would drop those that are about to be needed: they are kept as long as they are used.
type Recycler struct {
	small [firstLarge]sync.Pool // of *[]byte, by their capacity; see class

	mu       sync.Mutex
	large    [lastClass + 1 - firstLarge]spare // guarded by mu
	trimming bool                              // guarded by mu: trim will be called
}

// spare is pieces of one capacity of which none is in use.
type spare struct {
	pieces []*[]byte
	least  int // of them, since the latest trim
}

const (
	// Up to 1 KiB costs less to allocate than to recycle, and gRPC gives none of it back. Messages beyond 64 MiB are too
	// rare to be held on to.
	minRecycled, maxRecycled = 11, 26
	// Between a power of two and the next there are so many capacities: messages of one model are mostly of one size, and
	// all that a capacity has beyond it is memory that nobody uses.
	steps = 4
	// Pieces of more than 64 KiB are large.
	firstLarge = (16-minRecycled)*steps + 1
	lastClass  = (maxRecycled - minRecycled) * steps
	// keepUnused is how long large pieces are kept at least and, up to twice as long, that nobody uses.
	keepUnused = time.Second
)

// class returns the place of the smallest capacity that a size fits in, and that capacity.
func class(size int) (place, capacity int) {
	if size <= 1<<minRecycled {
		return 0, 1 << minRecycled
	}
	exponent := bits.Len(uint(size-1)) - 1 // 1<<exponent < size <= 2<<exponent
	step := 1 << exponent / steps
	over := (size - 1<<exponent + step - 1) / step
	return (exponent-minRecycled)*steps + over, 1<<exponent + over*step
}

// Get implements Memory.
func (r *Recycler) Get(size int) *[]byte {
	if size < 1<<(minRecycled-1) || size > 1<<maxRecycled {
		data := make([]byte, size)
		return &data
	}
	place, capacity := class(size)
	if data := r.take(place); data != nil {
		*data = (*data)[:size]
		return data
	}
	data := make([]byte, size, capacity)
	return &data
}

func (r *Recycler) take(place int) *[]byte {
	if place < firstLarge {
		data, _ := r.small[place].Get().(*[]byte)
		return data
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.large[place-firstLarge]
	n := len(s.pieces)
	if n == 0 {
		return nil
	}
	data := s.pieces[n-1]
	s.pieces[n-1] = nil
	s.pieces = s.pieces[:n-1]
	s.least = min(s.least, n-1)
	return data
}

// Put implements Memory.
func (r *Recycler) Put(data *[]byte) {
	size := cap(*data)
	if size < 1<<minRecycled || size > 1<<maxRecycled {
		return
	}
	place, capacity := class(size)
	switch {
	case size != capacity: // of another owner
	case place < firstLarge:
		r.small[place].Put(data)
	default:
		r.mu.Lock()
		defer r.mu.Unlock()
		s := &r.large[place-firstLarge]
		s.pieces = append(s.pieces, data)
		if !r.trimming {
			r.trimming = true
			time.AfterFunc(keepUnused, r.trim)
		}
	}
}

// trim drops the large pieces that nobody has used since the latest trim.
func (r *Recycler) trim() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trimming = false
	for i := range r.large {
		s := &r.large[i]
		s.pieces = slices.Delete(s.pieces, 0, s.least)
		s.least = len(s.pieces)
		r.trimming = r.trimming || s.least > 0
	}
	if r.trimming {
		time.AfterFunc(keepUnused, r.trim)
	}
}
