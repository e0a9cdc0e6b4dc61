package tensor_test

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/runtime/tensor"
)

// More than any address space holds: also where doubling the size would overflow, the slab says so and stays usable.
func TestSlabOutOfMemory(t *testing.T) {
	for _, n := range []int{1 << 62, 1<<62 + 1, math.MaxInt} {
		var s tensor.Slab
		s.Bytes(1)
		err := refusal(t, &s, n)
		if err.Bytes < n || !errors.Is(err, unix.ENOMEM) {
			t.Errorf("%d bytes: got %+v, want out of memory for at least as many", n, err)
		}
		for _, part := range []string{strconv.Itoa(err.Bytes) + " bytes", "batching.max_batch_size", "more memory"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
		if s.Cap() != 0 {
			t.Errorf("%d bytes: holds %d bytes after the refusal", n, s.Cap())
		}
		s.Bytes(10)[9] = 1
		s.Free()
	}
}

// refusal returns the value that s.Bytes(n) panics with.
func refusal(t *testing.T, s *tensor.Slab, n int) (err *tensor.OutOfMemoryError) {
	t.Helper()
	defer func() {
		p := recover()
		var is bool
		if err, is = p.(*tensor.OutOfMemoryError); !is {
			t.Fatalf("%d bytes: panicked with %v, want an *OutOfMemoryError", n, p)
		}
	}()
	s.Bytes(n)
	return nil
}
