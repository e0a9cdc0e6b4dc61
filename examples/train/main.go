// Command train trains the policies that the examples serve and writes them as ONNX files, three versions of each:
// poor, fair and good. It needs no engine, no Python and about a minute.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/weftserve/weft/examples/plant"
)

// iterations lists how long each version was trained: version 1 after the first of them, and so on.
var iterations = []int{1, 5, 60}

const (
	hidden = 16 // units of the one hidden layer

	// Episodes that judge a finished version; their seeds lie far from those drawn in training.
	judgeEpisodes  = 200
	judgeFirstSeed = 1 << 40
)

func main() {
	out := flag.String("out", filepath.Join("examples", "models"), "folder of the model repository to write")
	seed := flag.Uint64("seed", 1,
		"seed of the search; the same seed gives the same files on the same kind of processor")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "train: unexpected argument %q; there are only flags, see --help\n", flag.Arg(0))
		os.Exit(2)
	}
	for _, kind := range plant.Kinds() {
		if err := train(os.Stdout, kind, *seed, iterations, *out); err != nil {
			fmt.Fprintf(os.Stderr, "train: %v\n", err)
			os.Exit(1)
		}
	}
}

// train writes one version of a machine's policy under out for each number of iterations, which ascend, and reports its
// worth.
func train(report io.Writer, kind plant.Kind, seed uint64, iterations []int, out string) error {
	s := newSearch(kind, seed, hidden)
	for i, target := range iterations {
		for s.iteration < target {
			s.improve()
		}
		version := i + 1
		p := s.centre()
		path := filepath.Join(out, kind.Name, strconv.Itoa(version), "model.onnx")
		if err := write(path, p.onnx(kind.Name)); err != nil {
			return err
		}
		scores := returns(kind, p, judgeFirstSeed, judgeEpisodes)
		fmt.Fprintf(report, "%s version %d: %2d iterations, mean return %5.1f of at most %d\n",
			kind.Name, version, target, mean(scores), kind.MaxSteps)
	}
	return nil
}

// returns plays n episodes of consecutive seeds.
func returns(kind plant.Kind, p *policy, firstSeed uint64, n int) []float64 {
	machine := kind.New()
	out := make([]float64, n)
	for i := range out {
		out[i] = plant.Return(machine, firstSeed+uint64(i), p.act)
	}
	return out
}

func write(path string, model []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write a model: %w", err)
	}
	if err := os.WriteFile(path, model, 0o644); err != nil {
		return fmt.Errorf("write a model: %w", err)
	}
	return nil
}
