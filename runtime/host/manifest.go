package host

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// checkManifest makes sure that the manifest speaks of tensors and dimensions that the model has.
func checkManifest(s *tensor.Signature, b *modelrepo.Batching) error {
	for _, name := range b.Unbatched {
		if s.Input(name) < 0 {
			return fmt.Errorf("model.yaml: batching.unbatched names %q, but the model's inputs are %s", name, names(s.Inputs))
		}
	}
	for _, side := range []struct {
		key   string
		specs []tensor.Spec
		dims  map[string]int
	}{{"inputs", s.Inputs, b.BatchDim.Inputs}, {"outputs", s.Outputs, b.BatchDim.Outputs}} {
		for _, name := range slices.Sorted(maps.Keys(side.dims)) {
			key, dim := "model.yaml: batching.batch_dim."+side.key, side.dims[name]
			i := slices.IndexFunc(side.specs, func(s tensor.Spec) bool { return s.Name == name })
			switch {
			case i < 0:
				return fmt.Errorf("%s names %q, but the model's %s are %s", key, name, side.key, names(side.specs))
			case dim >= len(side.specs[i].Shape):
				return fmt.Errorf("%s.%s is %d, but the shape is %v; dimensions count from 0", key, name, dim, side.specs[i].Shape)
			case side.specs[i].Shape[dim] != tensor.Unknown:
				return fmt.Errorf("%s.%s is %d, but the shape is %v; rows can only be joined where the size is open", key, name, dim, side.specs[i].Shape)
			}
		}
	}
	return nil
}

func names(specs []tensor.Spec) string {
	quoted := make([]string, len(specs))
	for i, s := range specs {
		quoted[i] = fmt.Sprintf("%q", s.Name)
	}
	return strings.Join(quoted, ", ")
}
