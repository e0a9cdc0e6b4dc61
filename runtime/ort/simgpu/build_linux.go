package simgpu

import (
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"github.com/weftserve/weft/internal/ortlib"
)

//go:embed testdata/*.c testdata/*.h
var sources embed.FS

// New builds the library in a folder that is empty. That takes the C compiler that cgo takes.
func New(ctx context.Context, folder string) (*GPU, error) {
	onnxRuntime, err := ortlib.Find()
	if err != nil {
		return nil, err
	}
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/yalue/onnxruntime_go")
	header, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("find the header of ONNX Runtime: %w", err)
	}
	if err := os.CopyFS(folder, sources); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(folder, "testdata", "*.c"))
	if err != nil {
		return nil, err
	}
	library := filepath.Join(folder, ortlib.FileName())
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	// The name of the CUDA runtime is that by which Weft finds it among the loaded libraries.
	args := slices.Concat([]string{
		"-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", library,
		"-I" + strings.TrimSpace(string(header)), fmt.Sprintf("-DONNXRUNTIME=%q", onnxRuntime),
		"-Wl,-soname,libcudart.so.13", "-Wl,-Bsymbolic",
	}, files, []string{"-lpthread", "-lm", "-ldl"})
	//nolint:gosec // the compiler that cgo uses as well
	if out, err := exec.CommandContext(ctx, compiler, args...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build a simulated GPU: %w\n%s", err, out)
	}
	// Weft looks for the file of CUDA's provider, and does not load it.
	if err := os.WriteFile(filepath.Join(folder, "libonnxruntime_providers_cuda.so"), nil, 0o600); err != nil {
		return nil, err
	}
	page := make([]byte, unsafe.Sizeof(control{}))
	if err := os.WriteFile(filepath.Join(folder, controlFile), page, 0o600); err != nil {
		return nil, err
	}
	g, err := Open(library)
	if err != nil {
		return nil, err
	}
	g.size.Store(int64(len(page)))
	g.Mend()
	return g, nil
}
