package host_test

import (
	"strings"
	"testing"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
)

func TestManifestThatDoesNotFit(t *testing.T) {
	for _, test := range []struct {
		change func(*modelrepo.Batching)
		want   string
		public string
	}{
		{
			func(b *modelrepo.Batching) { b.Unbatched = []string{"z"} },
			`batching.unbatched names "z", but the model's inputs are "x"`,
			`batching.unbatched: expected names of the model's inputs, which are "x"`,
		},
		{
			func(b *modelrepo.Batching) { b.BatchDim.Inputs = map[string]int{"z": 0} },
			`batching.batch_dim.inputs names "z", but the model's inputs are "x"`,
			`batching.batch_dim.inputs names "z", but the model's inputs are "x"`,
		},
		{
			func(b *modelrepo.Batching) { b.BatchDim.Outputs = map[string]int{"y": 2} },
			"batching.batch_dim.outputs.y is 2, but the shape is [?,3]", "batching.batch_dim.outputs.y: expected a " +
				"dimension of the shape [?,3] whose size is open, counted from 0",
		},
		{
			func(b *modelrepo.Batching) { b.BatchDim.Inputs = map[string]int{"x": 1} },
			"batching.batch_dim.inputs.x is 1, but the shape is [?,3]", "batching.batch_dim.inputs.x: expected a " +
				"dimension of the shape [?,3] whose size is open, counted from 0",
		},
	} {
		w := newWorld(t, 1)
		f := perRow(3, double)
		w.add("m", 1, f, func(m *modelrepo.Manifest) { test.change(&m.Batching) })
		v := w.load("m")
		if v.State != catalog.Failed || !strings.Contains(v.Fault.Error(), test.want) ||
			!strings.Contains(v.Fault.Error(), v.Path) {
			t.Errorf("state %v, fault %q\nwant it to say %q and where", v.State, v.Fault, test.want)
		}
		if want := "m/1/model.onnx: model.yaml: " + test.public; v.Cause != want {
			t.Errorf("callers are told %q\nwant %q", v.Cause, want)
		}
		if f.Closed() != 1 {
			t.Errorf("the session of a version that failed was closed %d times", f.Closed())
		}
	}
}
