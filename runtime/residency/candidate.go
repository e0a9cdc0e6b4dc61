package residency

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// Candidate is a version as the repository has it: one to load, or one that was loaded.
type Candidate struct {
	Model    string
	Version  modelrepo.Version
	Manifest *modelrepo.Manifest
}

// Path is the model file or, for a synthetic model, its directory.
func (c *Candidate) Path() string {
	if c.Version.Path != "" {
		return c.Version.Path
	}
	return c.Version.Dir
}

// Hide returns an error of the candidate that shows callers no path of this machine.
func (c *Candidate) Hide(err error) *catalog.Hidden { return Hide(err, filepath.Dir(c.Version.Dir)) }

// Hide returns an error that shows callers no path of this machine: it names files from the repository on. dir is the
// model's.
func Hide(err error, dir string) *catalog.Hidden { return catalog.Hide(err, filepath.Dir(dir)) }

// alike reports whether loading the one must end as loading the other.
func (c *Candidate) alike(other *Candidate) bool {
	return c.Version.Fingerprint == other.Version.Fingerprint && c.Version.Path == other.Version.Path &&
		sameSettings(c.Manifest, other.Manifest)
}

// sameFiles reports whether two candidates are the same files in the same place.
func (c *Candidate) sameFiles(other *Candidate) bool {
	return c.Version.Fingerprint == other.Version.Fingerprint && c.Version.Dir == other.Version.Dir
}

// sameSettings reports whether two manifests say the same about how each version is loaded and run.
func sameSettings(a, b *modelrepo.Manifest) bool {
	if a == b {
		return true
	}
	x, y := *a, *b
	x.Versions = modelrepo.Versions{Transition: x.Versions.Transition}
	y.Versions = modelrepo.Versions{Transition: y.Versions.Transition}
	x.Traffic, y.Traffic = nil, nil
	x.State, y.State = nil, nil
	return reflect.DeepEqual(x, y) && reflect.DeepEqual(a.State.Settings(), b.State.Settings())
}

// sameOpening reports whether a model is opened alike under two manifests, and found to be what they declare and keep.
func sameOpening(a, b *modelrepo.Manifest) bool {
	return reflect.DeepEqual(a.Synth, b.Synth) && reflect.DeepEqual(a.ONNX, b.ONNX) && a.Isolation == b.Isolation &&
		reflect.DeepEqual(a.Declared, b.Declared) && reflect.DeepEqual(a.State.Tensors(), b.State.Tensors())
}

// batchesOf says which batches a manifest asks for, and how it has the model opened that runs them: the same where
// sameOpening and SameGrouping find two manifests the same, and in another process.
func batchesOf(m *modelrepo.Manifest) string {
	b := &m.Batching
	text, err := json.Marshal([]any{
		m.Synth, m.ONNX, m.Isolation, m.Declared, b.Mode, b.Tolerance, b.MaxBatchSize, b.MaxBatchCost, b.AllowedBatchSizes,
		b.BatchDim, b.Unbatched, b.VariableDims,
	})
	if err != nil { // such as an infinity, which is in the text of the error
		return err.Error()
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

// unbatched returns why versions that are opened and batched as a candidate is are out of batching, by their files.
func (m *Model) unbatched(c *Candidate) map[string]string {
	var all map[string]string
	for _, u := range m.Decided.Unbatched {
		if u.Batching != batchesOf(c.Manifest) {
			continue
		}
		if all == nil {
			all = map[string]string{}
		}
		all[u.Files] = u.Why
	}
	return all
}

// SameGrouping reports whether two manifests ask for the same batches.
func SameGrouping(a, b *modelrepo.Batching) bool {
	return a.Mode == b.Mode && a.Tolerance == b.Tolerance && a.MaxBatchSize == b.MaxBatchSize &&
		a.MaxBatchCost == b.MaxBatchCost && slices.Equal(a.AllowedBatchSizes, b.AllowedBatchSizes) && sameDims(a, b)
}

// sameDims reports whether two manifests say the same about the dimensions of rows and lengths.
func sameDims(a, b *modelrepo.Batching) bool {
	return maps.Equal(a.BatchDim.Inputs, b.BatchDim.Inputs) && maps.Equal(a.BatchDim.Outputs, b.BatchDim.Outputs) &&
		slices.Equal(a.Unbatched, b.Unbatched) && reflect.DeepEqual(a.VariableDims, b.VariableDims)
}

// numbered returns a version of the model, or nil.
func numbered(m *modelrepo.Model, number int64) *modelrepo.Version {
	for i := range m.Versions {
		if v := &m.Versions[i]; v.Number == number {
			return v
		}
	}
	return nil
}

// with returns the model with a version in it as given.
func with(m *modelrepo.Model, v modelrepo.Version) *modelrepo.Model {
	next := *m
	next.Versions = slices.DeleteFunc(slices.Clone(m.Versions),
		func(o modelrepo.Version) bool { return o.Number == v.Number })
	next.Versions = append(next.Versions, v)
	slices.SortFunc(next.Versions, func(a, b modelrepo.Version) int { return int(a.Number - b.Number) })
	return &next
}
