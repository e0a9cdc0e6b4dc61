// Command train trains the policies that the examples serve and writes them as ONNX files. It needs no engine and no
// Python.
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

// task is a policy to train.
type task struct {
	model  string
	kind   plant.Kind
	memory memory
	// iterations lists how long each version is trained: version 1 for the first of them, and so on.
	iterations []int
}

// tasks returns all policies: three versions, poor, fair and good, for machines that show all; and where speeds are
// hidden, one version without memory and one of each kind of memory.
func tasks() []task {
	return []task{
		{model: "cartpole", kind: plant.CartPole, iterations: []int{1, 5, 60}},
		{model: "hopper", kind: plant.Hopper, iterations: []int{1, 5, 60}},
		{model: "positions-memoryless", kind: plant.Positions, iterations: []int{60}},
		{model: "positions-frames", kind: plant.Positions, memory: memory{frames: 4}, iterations: []int{60}},
		{model: "positions-gru", kind: plant.Positions, memory: memory{cells: 8}, iterations: []int{60}},
	}
}

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
	for _, t := range tasks() {
		if err := t.train(os.Stdout, *seed, *out); err != nil {
			fmt.Fprintf(os.Stderr, "train: %v\n", err)
			os.Exit(1)
		}
	}
}

// train writes the versions under out, and reports their worth.
func (t *task) train(report io.Writer, seed uint64, out string) error {
	s := newSearch(t.kind, t.memory, seed)
	for i, target := range t.iterations {
		for s.iteration < target {
			s.improve()
		}
		version := i + 1
		p := s.centre()
		path := filepath.Join(out, t.model, strconv.Itoa(version), "model.onnx")
		if err := write(path, p.onnx(t.model)); err != nil {
			return err
		}
		scores := returns(t.kind, p, judgeFirstSeed, judgeEpisodes)
		fmt.Fprintf(report, "%s version %d: %2d iterations, mean return %5.1f of at most %d\n",
			t.model, version, target, mean(scores), t.kind.MaxSteps)
	}
	return nil
}

// returns plays n episodes of consecutive seeds.
func returns(kind plant.Kind, p *policy, firstSeed uint64, n int) []float64 {
	machine := kind.New()
	out := make([]float64, n)
	for i := range out {
		p.begin()
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
