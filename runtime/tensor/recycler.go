package tensor

import (
	"math/bits"
	"sync"
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
type Recycler struct {
	pools [maxRecycled - minRecycled + 1]sync.Pool // of *[]byte, by the power of two that their capacity is
}

// Up to 1 KiB costs less to allocate than to recycle, and gRPC gives none of it back. Messages beyond 64 MiB are too
// rare to be held on to.
const minRecycled, maxRecycled = 11, 26

// Get implements Memory.
func (r *Recycler) Get(size int) *[]byte {
	exponent := max(minRecycled, bits.Len(uint(max(size, 1)-1)))
	if size < 1<<(minRecycled-1) || exponent > maxRecycled {
		data := make([]byte, size)
		return &data
	}
	if data, is := r.pools[exponent-minRecycled].Get().(*[]byte); is {
		*data = (*data)[:size]
		return data
	}
	data := make([]byte, size, 1<<exponent)
	return &data
}

// Put implements Memory.
func (r *Recycler) Put(data *[]byte) {
	size := cap(*data)
	exponent := bits.Len(uint(size)) - 1
	if exponent >= minRecycled && exponent <= maxRecycled && size == 1<<exponent {
		r.pools[exponent-minRecycled].Put(data)
	}
}
