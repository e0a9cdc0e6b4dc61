package weftest

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// Tensors are those of a synthetic model, for its manifest: an input x of four elements a row, and an output y of two.
const Tensors = `inputs: {x: {dtype: fp32, shape: [-1, 4]}}, outputs: {y: {dtype: fp32, shape: [-1, 2]}}`

// AddVersion adds a version of a synthetic model to a repository.
func AddVersion(t testing.TB, repository, model string, version int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(repository, model, strconv.Itoa(version)), 0o755); err != nil {
		t.Fatal(err)
	}
}

// SetManifest writes a model's manifest.
func SetManifest(t testing.TB, repository, model, manifest string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(repository, model, "model.yaml"), []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
}
