package tensor

import "iter"

// Runs returns the data of the tensor, piece by piece.
func (t *Tensor) Runs() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if len(t.Data) > 0 && !yield(t.Data) {
			return
		}
		for _, p := range t.Pieces {
			if !yield(p) {
				return
			}
		}
	}
}

// Size returns how many bytes of data the tensor has.
func (t *Tensor) Size() int {
	n := len(t.Data)
	for _, p := range t.Pieces {
		n += len(p)
	}
	return n
}

// CopyTo copies the data to dst, which has room for them.
func (t *Tensor) CopyTo(dst []byte) {
	for run := range t.Runs() {
		dst = dst[copy(dst, run):]
	}
}

// cursor reads the data of a tensor from the front to the end.
type cursor struct {
	at   int    // where run begins within the data
	run  []byte // the piece that is read
	rest [][]byte
}

func (t *Tensor) cursor() cursor { return cursor{run: t.Data, rest: t.Pieces} }

// copy fills dst with the data from place at on, which is not before a piece that was read to its end.
func (c *cursor) copy(dst []byte, at int) {
	for len(dst) > 0 {
		if at >= c.at+len(c.run) {
			c.at += len(c.run)
			c.run, c.rest = c.rest[0], c.rest[1:]
			continue
		}
		n := copy(dst, c.run[at-c.at:])
		dst, at = dst[n:], at+n
	}
}
