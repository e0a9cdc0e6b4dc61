package modelfile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/modelfile"
)

// damage does something to a file that a model is made of, as careless or broken programs do.
func damage(rng *rand.Rand, path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	at := rng.IntN(len(content))
	switch rng.IntN(6) {
	case 0: // a copy that is torn: the beginning is there
		return os.WriteFile(path, content[:at], 0o600)
	case 1:
		return os.Truncate(path, int64(at))
	case 2: // overwritten in place, with something of the same size
		for i := range content {
			content[i] = byte(rng.Uint32())
		}
		return os.WriteFile(path, content, 0o600)
	case 3: // a bit flips
		content[at] ^= 1 << rng.IntN(8)
		return os.WriteFile(path, content, 0o600)
	case 4: // another file takes its place, by a symbolic link
		other := filepath.Join(filepath.Dir(path), fmt.Sprintf("other-%d", rng.Uint32()))
		content[at]++
		return errors.Join(os.WriteFile(other, content, 0o600), os.Remove(path), os.Symlink(filepath.Base(other), path))
	default: // longer than it was
		return os.WriteFile(path, append(content, 0), 0o600)
	}
}

// TestDamaged: whatever happens to files before they are read, while they are, and afterwards, a copy of a sealed
// version holds what was sealed, or there is none.
func TestDamaged(t *testing.T) {
	seeds := weftest.Times(300, 1000)
	if testing.Short() {
		seeds = 150
	}
	ctx := context.Background()
	var whole, refused int
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		good := map[string][]byte{"model.onnx": graph("w.bin", "v.bin")}
		for _, name := range []string{"w.bin", "v.bin"} {
			good[name] = onnxgraph.FloatBytes(make([]float32, 2+rng.IntN(5000)))
		}
		repository, dir := put(t, map[string][]byte{
			"m/1/model.onnx": good["model.onnx"], "m/1/w.bin": good["w.bin"], "m/1/v.bin": good["v.bin"],
		})
		sealed, err := modelfile.Read(ctx, placeOf(repository, dir), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(modelfile.WriteSums(dir, sealed.Sums()), sealed.Close()); err != nil {
			t.Fatal(err)
		}
		victim := filepath.Join(dir, []string{"model.onnx", "w.bin", "v.bin"}[rng.IntN(3)])
		hit, when := make(chan error, 1), rng.IntN(3)
		switch when {
		case 0: // before
			hit <- damage(rng, victim)
		case 1: // meanwhile
			go func() { hit <- damage(rng, victim) }()
		}
		f, err := modelfile.Load(ctx, placeOf(repository, dir), true, nil)
		if when == 2 {
			hit <- damage(rng, victim)
		}
		if err := <-hit; err != nil {
			t.Fatal(err)
		}
		if err != nil {
			refused++
			if when == 2 {
				t.Errorf("seed %d: whole files were refused: %v", seed, err)
			}
			continue
		}
		whole++
		if when == 0 {
			t.Errorf("seed %d: a damaged %s was read", seed, filepath.Base(victim))
		}
		for _, file := range f.List {
			if !bytes.Equal(content(t, f, file), good[file.Name]) {
				t.Errorf("seed %d: %s is not what was sealed", seed, file.Name)
			}
		}
		_ = f.Close()
	}
	t.Logf("%d copies, %d refusals", whole, refused)
	if whole < seeds/3 || refused < seeds/3 {
		t.Errorf("%d copies and %d refusals of %d", whole, refused, seeds)
	}
}

// TestConfirm: what was written to in place since it was read is told from what was replaced, touched or linked.
func TestConfirm(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(path string) error
		want error
	}{
		"nothing":     {func(string) error { return nil }, nil},
		"overwritten": {func(path string) error { return os.WriteFile(path, make([]byte, 8), 0o600) }, modelfile.ErrChanged},
		"longer":      {func(path string) error { return os.WriteFile(path, make([]byte, 9), 0o600) }, modelfile.ErrChanged},
		"cut off":     {func(path string) error { return os.Truncate(path, 0) }, modelfile.ErrChanged},
		"touched":     {func(path string) error { return os.Chmod(path, 0o400) }, nil},
		"linked":      {func(path string) error { return os.Link(path, path+"2") }, nil},
		"removed":     {os.Remove, nil},
		"replaced": {func(path string) error {
			return errors.Join(os.WriteFile(path+"2", []byte("other"), 0o600), os.Rename(path+"2", path))
		}, nil},
	} {
		repository, dir := put(t, map[string][]byte{
			"m/1/model.onnx": graph("w.bin"), "m/1/w.bin": onnxgraph.FloatBytes([]float32{1, 2}),
		})
		f, err := modelfile.Read(t.Context(), placeOf(repository, dir), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.do(filepath.Join(dir, "w.bin")); err != nil {
			t.Fatal(err)
		}
		if err := f.Confirm(t.Context()); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		_ = f.Close()
	}
}
