package ort_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/runtime/tensor"
)

// A batch that has no room for an output panics in the middle of Run. ONNX Runtime's allocations for this output and
// the later ones are given back anyway, and the session runs on.
func TestPanicReleasesOutputs(t *testing.T) {
	g := onnxgraph.New("two").Input("shape", onnxgraph.Int64, 1).Output("y", onnxgraph.Float,
		nil).Output("z", onnxgraph.Float, nil)
	g.InitFloats("one", []int64{1}, 1).InitFloats("two", []int64{1}, 2)
	g.Node("Expand", []string{"one", "shape"}, []string{"y"}).Node("Expand", []string{"two", "shape"}, []string{"z"})
	s := openGraph(t, g.Marshal())
	const output = 16 << 20 // bytes
	shape := int64s(tensor.Shape{1}, output/4)
	for room, lost := range []int{2, 1} { // outputs that the batch can take, and cannot
		b := tensor.NewBatch(1, room, nil)
		t.Cleanup(b.Free)
		fill(b, shape)
		mustPanic(t, s, b) // memory that is kept for later runs is counted from here on
		before := resident(t)
		const runs = 16
		for range runs {
			mustPanic(t, s, b)
		}
		if grown := resident(t) - before; grown > runs*lost*output/2 {
			t.Errorf("room for %d outputs: %d MiB more after %d runs, each with %d MiB without room", room, grown>>20,
				runs, lost*output>>20)
		}
	}
	if got := runOnce(t, s, int64s(tensor.Shape{1}, 3)); len(got[0].Data) != 12 || len(got[1].Data) != 12 {
		t.Errorf("a later run: got %v", got)
	}
}

func mustPanic(t *testing.T, s *ort.Session, b *tensor.Batch) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Fatal("the batch had room")
		}
	}()
	t.Errorf("Run returned %v", s.Run(t.Context(), b))
}

// resident returns the bytes of the process that are in memory.
func resident(t *testing.T) int {
	t.Helper()
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int
	if _, err := fmt.Sscan(string(statm), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
