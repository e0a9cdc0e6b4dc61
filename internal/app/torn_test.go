package app

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/modelfile"
)

// weighted writes version 1 of a model whose weights, which it adds to rows of four, lie in a file of their own.
func weighted(t *testing.T, repository, model string, weights ...float32) (dir string) {
	t.Helper()
	dir = filepath.Join(repository, model, "1")
	g := onnxgraph.New("g").Input("x", onnxgraph.Float, "n", 4).Output("y", onnxgraph.Float, "n", 4)
	g.ExternalInit("w", onnxgraph.Float, []int64{4}, "weights.bin", 0, 16).Node("Add", []string{"x", "w"}, []string{"y"})
	if err := errors.Join(os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "model.onnx"), g.Marshal(), 0o600),
		os.WriteFile(filepath.Join(dir, "weights.bin"), onnxgraph.FloatBytes(weights), 0o600)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func sealDir(t *testing.T, repository, dir string) {
	t.Helper()
	f, err := modelfile.Read(t.Context(), modelfile.Place{Repository: repository, Dir: dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(modelfile.WriteSums(dir, f.Sums()), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestFilesChangeUnderServedModel: whatever happens to the files of a version that answers, it answers as before, also
// from another process; the damaged files never do, and the reason names the file.
func TestFilesChangeUnderServedModel(t *testing.T) {
	rounds := weftest.Times(50, 500)
	for _, isolation := range []config.Isolation{config.IsolateDevice, config.IsolateNone} {
		t.Run(string(isolation), func(t *testing.T) {
			repository := t.TempDir()
			dir := weighted(t, repository, "m", 10, 20, 30, 40)
			sealDir(t, repository, dir)
			weighted(t, repository, "unsealed", 1, 2, 3, 4)
			r := serveFrom(t, repository, func(a *App) {
				a.Isolation, a.RequireDigests, a.WatchInterval = isolation, true, config.Duration(100*time.Millisecond)
			})
			r.awaitReady(t)
			ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
			defer cancel()
			version := func(model string) *weftv1.ModelVersion {
				t.Helper()
				m, err := weftv1.NewModelServiceClient(r.conn).GetModel(ctx, &weftv1.GetModelRequest{Name: model})
				if err != nil {
					t.Fatal(err)
				}
				return m.GetModel().GetVersions()[0]
			}
			digest := version("m").GetDigest()
			if len(digest) != 64 {
				t.Errorf("the digest is %q", digest)
			}
			if v := version("unsealed"); v.GetState() != weftv1.VersionState_VERSION_STATE_FAILED ||
				!strings.Contains(v.GetFailure(), "SHA256SUMS; write it with `weft seal unsealed/1`") || v.GetDigest() != "" {
				t.Errorf("a version without digests: %v", v)
			}
			killed := false // a process, and nothing was asked since
			ask := func(what string, value float32) {
				t.Helper()
				a, err := weftv1.NewPredictionServiceClient(r.conn).Predict(ctx, weftest.Request("m", value))
				for err != nil && killed && ctx.Err() == nil { // it ran in a process that was killed
					a, err = weftv1.NewPredictionServiceClient(r.conn).Predict(ctx, weftest.Request("m", value))
				}
				killed = false
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if got := a.GetOutputs()["y"].GetFloatValues(); !slices.Equal(got, []float32{value + 10, 22, 33, 44}) {
					t.Fatalf("%s: the answer is %v", what, got)
				}
			}
			ask("before", 1)
			files := map[string][]byte{}
			for _, name := range []string{"model.onnx", "weights.bin"} {
				content, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil {
					t.Fatal(err)
				}
				files[name] = content
			}
			rng := rand.New(rand.NewPCG(7, 7))
			for round := range rounds {
				name := []string{"model.onnx", "weights.bin"}[rng.IntN(2)]
				path, content := filepath.Join(dir, name), slices.Clone(files[name])
				at := rng.IntN(len(content))
				var err error
				switch rng.IntN(4) {
				case 0:
					err = os.Truncate(path, 0)
				case 1:
					content[at] ^= 1 << rng.IntN(8)
					err = os.WriteFile(path, content, 0o600)
				case 2:
					err = os.WriteFile(path, content[:at], 0o600)
				case 3:
					err = errors.Join(os.Remove(path), os.Symlink("nothing", path), os.Remove(path),
						os.WriteFile(path, []byte("other"), 0o600))
				}
				if err != nil {
					t.Fatal(err)
				}
				ask(fmt.Sprintf("round %d, %s", round, name), float32(round))
				if isolation != config.IsolateNone && round%(rounds/5) == 0 {
					for _, pid := range weftest.Children(os.Getpid()) {
						_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended already
					}
					killed = true
				}
			}
			if err := os.WriteFile(filepath.Join(dir, "weights.bin"), make([]byte, 16), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "model.onnx"), files["model.onnx"], 0o600); err != nil {
				t.Fatal(err)
			}
			// The files are looked at when they are as they were for a second.
			for !strings.Contains(version("m").GetFailure(), "weights.bin") {
				if ctx.Err() != nil {
					t.Fatalf("damaged files are not told: %v", version("m"))
				}
				ask("while damaged files are looked at", 2)
			}
			ask("after they were refused", 3)
			if v := version("m"); v.GetState() != weftv1.VersionState_VERSION_STATE_READY || v.GetDigest() != digest {
				t.Errorf("%v", v)
			}
		})
	}
}
