package ask

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
)

// TestPushFindsWhatTheFileNames: files of external data are uploaded with it, by the names that the graph has for them.
func TestPushFindsWhatTheFileNames(t *testing.T) {
	dir := t.TempDir()
	graph := onnxgraph.New("m").ExternalInit("w", onnxgraph.Float, []int64{2}, "data/w.bin", 0, 8)
	push := Push{Model: "m", Version: 3, File: filepath.Join(dir, "policy.onnx")}
	if err := os.WriteFile(push.File, graph.Marshal(), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := push.files()
	if err == nil || !strings.Contains(err.Error(), "policy.onnx names it for external data: put it there") {
		t.Errorf("without the data: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data/w.bin"), make([]byte, 8), 0o600); err != nil {
		t.Fatal(err)
	}
	paths, start, err := push.files()
	if err != nil || len(paths) != 2 || paths[0] != push.File || start.GetVersion() != 3 {
		t.Fatal(paths, start, err)
	}
	if f := start.GetFiles(); f[0].GetName() != "model.onnx" || f[1].GetName() != "data/w.bin" || f[1].GetBytes() != 8 ||
		len(f[1].GetSha256()) != 32 {
		t.Errorf("%v", start)
	}
}
