package modelrepo_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"

	"github.com/weftserve/weft/proto/gen/tensorflow/serving"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// listings scans the models of a model config file, in which TMP stands for the directory.
func listings(t *testing.T, tmp, text string) string {
	t.Helper()
	file := filepath.Join(tmp, "models.config")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "TMP", tmp)), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := modelrepo.OpenListed(file)
	if err != nil {
		t.Fatal(err)
	}
	l := r.Scan()
	return plainSpaces(show(l, tmp))
}

// TestModelConfigFiles holds what comes of testdata/listed/NAME.pbtxt.
func TestModelConfigFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/listed/*.pbtxt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no input: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			tmp := t.TempDir()
			build(t, tmp, map[string]string{
				"a/b c/1/model.onnx": "m", "a/b c/2/model.onnx": "m", "a/b c/3/model.onnx": "m",
				"a/b c/model.yaml":    "weight: 2\nversions: {policy: all, labels: {of-yaml: 1}}",
				"t/1/model.onnx":      "m",
				"t/config.pbtxt":      "name: \"t\" max_batch_size: 8 dynamic_batching { preserve_ordering: true }",
				"s/1/saved_model.pb":  "m",
				"s/1/variables/x":     "m",
				"hollow/":             "",
				"out/1/model.onnx":    "-> /etc/passwd",
				"faulty/1/model.onnx": "m", "faulty/model.yaml": "wieght: 2",
			})
			golden(t, strings.TrimSuffix(file, ".pbtxt")+".txt", listings(t, tmp, string(text)))
		})
	}
}

// FuzzModelConfigFile: no bytes crash the reader, and what is no such file is a fault.
func FuzzModelConfigFile(f *testing.F) {
	files, err := filepath.Glob("testdata/listed/*.pbtxt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		models, err := modelrepo.ReadModelConfig("models.config", text)
		var c serving.ModelServerConfig
		switch wrong := prototext.Unmarshal(text, &c); {
		case wrong != nil && err == nil:
			t.Errorf("no fault, although %v", wrong)
		case models > len(c.GetModelConfigList().GetConfig()):
			t.Errorf("%d models", models)
		}
	})
}
