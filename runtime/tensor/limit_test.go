package tensor_test

import (
	"testing"

	"github.com/weftserve/weft/runtime/tensor"
)

// TestMost: the outputs of a run take at most Most bytes together; room is made for up to twice that, as a slab in
// another process may ask for it.
func TestMost(t *testing.T) {
	b := tensor.NewBatch(0, 2, nil)
	defer b.Free()
	b.Most = 10_000
	output := func(i, size int) (refused *tensor.TooLargeError) {
		defer func() { refused, _ = recover().(*tensor.TooLargeError) }()
		b.Output(i, tensor.Uint8, tensor.Shape{int64(size)}, size)
		return nil
	}
	for _, c := range []struct{ output, size, refused int }{
		{0, 10_001, 10_001}, {0, 6000, 0}, {1, 4001, 10_001}, {1, 4000, 0}, {0, 6000, 0},
	} {
		e := output(c.output, c.size)
		if (e != nil) != (c.refused > 0) || e != nil && *e != (tensor.TooLargeError{Bytes: c.refused, Most: b.Most}) {
			t.Errorf("output %d of %d bytes: %v", c.output, c.size, e)
		}
	}
	if room := len(b.Room(0)); !b.Reserve(0, 20_000) || len(b.Room(0)) < 20_000 || b.Reserve(0, 20_001) {
		t.Errorf("room for 20000 bytes, which is twice as much, and no more: %d, then %d", room, len(b.Room(0)))
	}
	b.Most = 0
	if e := output(0, 50_000); e != nil || !b.Reserve(1, 50_000) {
		t.Errorf("without a limit: %v", e)
	}
}
