package proof

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// misfit is the fault of a setting of the manifest for a model. Callers see the expected setting, not the actual one.
func misfit(key, expected, format string, args ...any) error {
	return &catalog.Hidden{Err: fmt.Errorf(key+format, args...), Text: key + ": expected " + expected}
}

// checkManifest makes sure that the manifest speaks of tensors and dimensions that the model has.
func checkManifest(s *tensor.Signature, b *modelrepo.Batching) error {
	for _, name := range b.Unbatched {
		if s.Input(name) < 0 {
			return misfit("model.yaml: batching.unbatched", "names of the model's inputs, which are "+names(s.Inputs),
				" names %q, but the model's inputs are %s", name, names(s.Inputs))
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
				return misfit(key+"."+name, open(side.specs[i].Shape),
					" is %d, but the shape is %v; dimensions count from 0", dim, side.specs[i].Shape)
			case side.specs[i].Shape[dim] != tensor.Unknown:
				return misfit(key+"."+name, open(side.specs[i].Shape),
					" is %d, but the shape is %v; rows can only be joined where the size is open", dim,
					side.specs[i].Shape)
			}
		}
	}
	return nil
}

func open(s tensor.Shape) string {
	return fmt.Sprintf("a dimension of the shape %v whose size is open, counted from 0", s)
}

func names(specs []tensor.Spec) string {
	quoted := make([]string, len(specs))
	for i, s := range specs {
		quoted[i] = fmt.Sprintf("%q", s.Name)
	}
	return strings.Join(quoted, ", ")
}
