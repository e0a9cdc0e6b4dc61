package modelrepo_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// TestLabelsInAPipe are not waited for.
func TestLabelsInAPipe(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "labels.txt"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &modelrepo.Declared{
		File:    filepath.Join(dir, "config.pbtxt"),
		Outputs: []modelrepo.DeclaredTensor{{Name: "y", LabelFile: "labels.txt"}},
	}
	err := d.Show(&tensor.Signature{Outputs: []tensor.Spec{{Name: "y"}}})
	if err == nil || !strings.Contains(err.Error(), `label_filename "labels.txt": it is not a regular file`) {
		t.Error(err)
	}
}
