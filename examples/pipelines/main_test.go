package main

import (
	"bytes"
	"os"
	"testing"
)

// TestModelsAreThoseOfTheProgram: what lies here is what it writes.
func TestModelsAreThoseOfTheProgram(t *testing.T) {
	for name, model := range models() {
		if file, err := os.ReadFile(name + "/1/model.onnx"); err != nil || !bytes.Equal(file, model) {
			t.Errorf("%s: %v, or another model: run `go run ./examples/pipelines`", name, err)
		}
	}
}
