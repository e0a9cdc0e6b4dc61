package app

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/ortlib"
)

// TestCheckOfAModelThatCrashes on each row: that is a fault, although a server would serve it.
func TestCheckOfAModelThatCrashes(t *testing.T) {
	if _, err := ortlib.Find(); err != nil {
		t.Skip(err)
	}
	g := onnxgraph.New("g").Input("a", onnxgraph.Int64, "n").Output("q", onnxgraph.Int64, "n")
	g.InitInt64s("least", nil, math.MinInt64).InitInt64s("minus", nil, -1)
	g.Node("Sub", []string{"a", "a"}, []string{"zero"}).Node("Add", []string{"zero", "least"}, []string{"m"})
	g.Node("Add", []string{"zero", "minus"}, []string{"d"}).Node("Div", []string{"m", "d"}, []string{"q"})
	repository := t.TempDir()
	dir := filepath.Join(repository, "m", "1")
	if err := errors.Join(os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "model.onnx"), g.Marshal(), 0o600)); err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	s := &Settings{Repositories: []string{repository}, Server: config.DefaultServer()}
	if err := Check(s, true, &out, &errs); !errors.Is(err, errFaults) ||
		!strings.Contains(errs.String(), "model m version 1: the first made-up row ended its process: ") {
		t.Errorf("%v\n%s%s", err, &errs, &out)
	}
}
