package tensor

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
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
// and go, and each collection would drop the ones that are about to be needed: they are kept as long as they are used.
type Recycler struct {
	small [firstLarge]sync.Pool // of *[]byte, by their capacity; see class
	large [lastClass + 1 - firstLarge]spare
	kept  atomic.Int64 // bytes of large pieces that are not in use
}

// spare is the pieces of one capacity that are not in use.
type spare struct {
	mu     sync.Mutex
	pieces []*[]byte // guarded by mu, as all that follows
	least  int       // of them, since the latest trim
	trims  bool      // trim will be called
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
	// maxKept bounds the bytes of large pieces that are not in use.
	maxKept = 128 << 20
	// keepUnused is how long large pieces that nobody uses are kept at least; at most it is twice as long.
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
	var data *[]byte
	if place < firstLarge {
		data, _ = r.small[place].Get().(*[]byte)
	} else if data = r.large[place-firstLarge].take(); data != nil {
		r.kept.Add(int64(-capacity))
	}
	if data == nil {
		fresh := make([]byte, size, capacity)
		return &fresh
	}
	*data = (*data)[:size]
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
	case r.kept.Add(int64(size)) > maxKept:
		r.kept.Add(int64(-size))
	default:
		r.large[place-firstLarge].give(r, data)
	}
}

// take returns nil if there is no piece.
func (s *spare) take() *[]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
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

func (s *spare) give(r *Recycler, data *[]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pieces = append(s.pieces, data)
	if !s.trims {
		s.trims = true
		time.AfterFunc(keepUnused, func() { s.trim(r) })
	}
}

// trim drops the pieces that nobody has used since the latest trim.
func (s *spare) trim(r *Recycler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, data := range s.pieces[:s.least] {
		r.kept.Add(int64(-cap(*data)))
	}
	s.pieces = slices.Delete(s.pieces, 0, s.least)
	s.least = len(s.pieces)
	if s.trims = s.least > 0; s.trims {
		time.AfterFunc(keepUnused, func() { s.trim(r) })
	}
}
