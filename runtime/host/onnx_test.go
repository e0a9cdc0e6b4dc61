package host_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelfile"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/shell"
)

// onnxHost loads a listing into a host with ONNX Runtime and a real scheduler over the CPU.
func onnxHost(t testing.TB, l modelrepo.Listing) *host.Host {
	t.Helper()
	library, err := ortlib.Find()
	if err != nil {
		t.Fatal(err)
	}
	if err := ort.Init(library); err != nil {
		t.Fatal(err)
	}
	h := host.New(host.Config{Logger: slog.New(slog.DiscardHandler), Open: openONNX, Read: readONNX})
	s, err := shell.New(sharedsched.Config{Devices: []sharedsched.Device{{Name: "cpu", Class: "cpu", Lanes: 1}}},
		h, shell.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h.Attach(s)
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
		s.Close()
	})
	if err := h.Reconcile(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	return h
}

func readONNX(ctx context.Context, v modelrepo.Version, told func(done, of int64)) (*modelfile.Files, error) {
	if v.Path == "" {
		return nil, nil
	}
	return modelfile.Read(ctx, modelfile.Place{Repository: v.Repository(), Dir: v.Dir}, told)
}

func openONNX(_ context.Context, v modelrepo.Version, _ *modelfile.Files, m *modelrepo.Manifest,
	_ string, _ engine.Try,
) (engine.Opened, error) {
	s, err := ort.Open(v.Path, ort.Options{IntraOpThreads: int(m.ONNX.IntraOpThreads)})
	if err != nil {
		return engine.Opened{}, err
	}
	return engine.Opened{Session: s, Device: "cpu", Provider: s.Provider(), Notes: s.Notes()}, nil
}

// onnxModel is a listing of one model file.
func onnxModel(t testing.TB, model []byte) modelrepo.Listing {
	t.Helper()
	path := filepath.Join(t.TempDir(), modelrepo.ModelFile)
	if err := os.WriteFile(path, model, 0o600); err != nil {
		t.Fatal(err)
	}
	v := modelrepo.Version{Number: 1, Dir: filepath.Dir(path), Path: path}
	return modelrepo.Listing{Models: []modelrepo.Model{{
		Name: "m", Manifest: modelrepo.Defaults(), Versions: []modelrepo.Version{v}, Selected: []modelrepo.Version{v},
	}}}
}
