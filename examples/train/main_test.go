package main

import (
	"bytes"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/weftserve/weft/examples/plant"
)

// TestCheckedInVersionsImprove plays the models of the repository: a later version must be better by far more than
// chance, and the last one must be good, but for the one that lacks the memory that it needs.
func TestCheckedInVersionsImprove(t *testing.T) {
	const plays = 40
	for _, task := range tasks() {
		t.Run(task.model, func(t *testing.T) {
			previous, previousError := math.Inf(-1), 0.0
			for i := range task.iterations {
				version := strconv.Itoa(i + 1)
				model, err := os.ReadFile(filepath.Join("..", "models", task.model, version, "model.onnx"))
				if err != nil {
					t.Fatal(err)
				}
				scores := returns(task.kind, read(t, task.memory, model), judgeFirstSeed, plays)
				score, spread := mean(scores), 0.0
				for _, s := range scores {
					spread += (s - score) * (s - score)
				}
				standardError := math.Sqrt(spread/(plays-1)) / math.Sqrt(plays)
				t.Logf("version %s: mean return %.1f ± %.1f", version, score, standardError)
				if score < previous+4*math.Hypot(standardError, previousError) {
					t.Errorf("version %s returns %.1f ± %.1f, the one before it %.1f ± %.1f: not clearly better",
						version, score, standardError, previous, previousError)
				}
				previous, previousError = score, standardError
			}
			hopeless := task.kind.Name == plant.Positions.Name && task.memory == memory{}
			if goal := 0.7 * float64(task.kind.MaxSteps); previous < goal != hopeless {
				t.Errorf("the last version returns %.1f; want at least %.1f with all that it needs, and less without", previous,
					goal)
			}
		})
	}
}

// TestSearchDoesNotDependOnTheCores trains a little with one core and with several.
func TestSearchDoesNotDependOnTheCores(t *testing.T) {
	train := func(cores int) []byte {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
		s := newSearch(plant.CartPole, memory{}, 1)
		for range 2 {
			s.improve()
		}
		return s.centre().onnx("p")
	}
	if !bytes.Equal(train(1), train(4)) {
		t.Error("one core and four gave different policies")
	}
}

func TestSearchImproves(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	s := newSearch(plant.CartPole, memory{}, 5)
	before := mean(returns(plant.CartPole, s.centre(), judgeFirstSeed, 20))
	for range 10 {
		s.improve()
	}
	if after := mean(returns(plant.CartPole, s.centre(), judgeFirstSeed, 20)); after < 5*before {
		t.Errorf("mean return %.1f after ten iterations, %.1f before", after, before)
	}
}

func TestTrainWritesOneVersionForEachTarget(t *testing.T) {
	out := t.TempDir()
	task := task{model: "p", kind: plant.CartPole, iterations: []int{1, 3}}
	if err := task.train(io.Discard, 1, out); err != nil {
		t.Fatal(err)
	}
	s := newSearch(plant.CartPole, memory{}, 1)
	s.improve()
	want := map[string][]byte{"1": s.centre().onnx("p")}
	s.improve()
	s.improve()
	want["2"] = s.centre().onnx("p")
	for version, model := range want {
		got, err := os.ReadFile(filepath.Join(out, "p", version, "model.onnx"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, model) {
			t.Errorf("version %s is not the policy of its iteration", version)
		}
	}
}

func TestTrainSaysWhatItCannotWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	task := task{model: "p", kind: plant.CartPole, iterations: []int{1}}
	if err := task.train(io.Discard, 1, file); err == nil {
		t.Error("training into a file that is no folder succeeded")
	}
}
