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
	pools [(maxRecycled-minRecycled)*steps + 1]sync.Pool // of *[]byte, by their capacity; see class
}

// Up to 1 KiB costs less to allocate than to recycle, and gRPC gives none of it back. Messages beyond 64 MiB are too
// rare to be held on to. Between a power of two and the next there are so many capacities: messages of one model are
// mostly of one size, and all that a capacity has beyond it is memory that nobody uses.
const minRecycled, maxRecycled, steps = 11, 26, 4

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
	if data, is := r.pools[place].Get().(*[]byte); is {
		*data = (*data)[:size]
		return data
	}
	data := make([]byte, size, capacity)
	return &data
}

// Put implements Memory.
func (r *Recycler) Put(data *[]byte) {
	if size := cap(*data); size >= 1<<minRecycled && size <= 1<<maxRecycled {
		if place, capacity := class(size); size == capacity {
			r.pools[place].Put(data)
		}
	}
}
