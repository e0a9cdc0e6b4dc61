package tensor

import "fmt"

// TooLargeError is the value that Batch.Output panics with when a run's outputs exceed Batch.Most.
type TooLargeError struct {
	// Bytes is the size of the outputs that were declared until then, in memory.
	Bytes int
	// Most is how much they may take.
	Most int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the outputs take %d bytes, of at most %d; ask for fewer rows, or raise --max-message-bytes",
		e.Bytes, e.Most)
}

// measure panics with a *TooLargeError if output i, of so many bytes, and the ones declared before exceed Most.
func (b *Batch) measure(i, size int) {
	if b.Most == 0 {
		return
	}
	for j := range b.Outputs {
		if o := &b.Outputs[j]; j != i && o.DType != Invalid {
			size += len(o.Data)
		}
	}
	if size > b.Most {
		panic(&TooLargeError{Bytes: size, Most: b.Most})
	}
}

// Reserve makes output i have room for so many bytes, for which a Slab in another process asks. It reports false, and
// does nothing, if no output within Most needs as much.
func (b *Batch) Reserve(i, size int) bool {
	if b.Most > 0 && size > max(minSlab, 2*b.Most) { // a Slab takes up to twice what it needs
		return false
	}
	b.out[i].Bytes(size)
	return true
}
