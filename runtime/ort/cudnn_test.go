package ort_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/weftserve/weft/runtime/ort"
)

// A model that needs cuDNN is refused where the system has none; one that does not need it is not.
func TestMissingCuDNN(t *testing.T) {
	folder := t.TempDir()
	name := filepath.Join(folder, "libcudnn.so.9")
	ort.UseCuDNN(t, name)
	contains(t, ort.CheckCuDNN([]string{"Relu", "Conv"}, nil), "NVIDIA's cuDNN for Conv,", name, "LD_LIBRARY_PATH")
	contains(t, ort.CheckCuDNN([]string{"LSTM", "Conv", "Conv"}, nil), "for Conv, LSTM,")
	for what, operators := range map[string][2][]string{
		"no need": {{"MatMul", "Softmax"}, nil}, "on the CPU": {{"Add"}, {"Conv"}}, "nothing": {},
	} {
		if err := ort.CheckCuDNN(operators[0], operators[1]); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := os.WriteFile(name, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	contains(t, ort.CheckCuDNN([]string{"Conv"}, nil), "cuDNN", name)
	if err := os.Rename(shared(t, "int cudnnCreate(void **h) { return 0; }"), name); err != nil {
		t.Fatal(err)
	}
	if err := ort.CheckCuDNN([]string{"Conv"}, nil); err != nil {
		t.Errorf("where it is: %v", err)
	}
}
