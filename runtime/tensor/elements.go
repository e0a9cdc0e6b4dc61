package tensor

import "encoding/binary"

// elements finds elements of a tensor by number. Those of strings differ in length and are looked up in a table.
type elements struct {
	data []byte
	from cursor // of data, or of the pieces
	size int
	// starts has where each string begins and, one more, where the last ends.
	starts []int
}

func elementsOf(t Tensor) elements {
	e := elements{data: t.Data, from: t.cursor(), size: t.DType.Size()}
	if t.DType != String {
		return e
	}
	at := 0
	for at < len(t.Data) {
		e.starts = append(e.starts, at)
		at += 4 + int(binary.LittleEndian.Uint32(t.Data[at:]))
	}
	e.starts = append(e.starts, at)
	return e
}

// copy writes n elements from the first on, which is not before those of the latest call, to dst, and returns the rest
// of that.
func (e *elements) copy(dst []byte, first, n int) []byte {
	if e.starts != nil {
		return dst[copy(dst, e.run(first, n)):]
	}
	e.from.copy(dst[:n*e.size], first*e.size)
	return dst[n*e.size:]
}

// run returns the bytes of n elements from the first on. They lie in one piece.
func (e *elements) run(first, n int) []byte {
	if e.starts != nil {
		return e.data[e.starts[first]:e.starts[first+n]]
	}
	return e.data[first*e.size:][:n*e.size]
}
