package worker_test

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
)

// TestWithoutDescriptors: a run for which the server has no descriptor was not made, whatever its input, and the next
// one is.
func TestWithoutDescriptors(t *testing.T) {
	p, _ := newPool(t)
	o := open(t, p)
	b := tensor.NewBatch(1, 1, o.Memory)
	defer b.Free()
	b.Input(0, tensor.Float32, tensor.Shape{1}, 4)
	b.Reserve(0, 4)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	set := func(files uint64) {
		t.Helper()
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: files, Max: limit.Max}); err != nil {
			t.Fatal(err)
		}
	}
	set(3)
	_, noSlab := o.Memory.Allocate(1)
	noLane := runOpen(t.Context(), b, o)
	set(limit.Cur)
	for _, err := range []error{noSlab, noLane} {
		if engine.KindOf(err) != engine.NotOpen || !strings.Contains(err.Error(), "too many open files; raise the limit") {
			t.Errorf("%v of the kind %d", err, engine.KindOf(err))
		}
	}
	if err := runOpen(t.Context(), b, o); err != nil {
		t.Error(err)
	}
}
