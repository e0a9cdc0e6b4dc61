//go:build linux

package poison

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/race"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// replacement is a model that is replaced again and again. Its versions differ in one weight.
type replacement struct {
	file    []byte
	changed int // where that weight is
}

func newReplacement(megabytes int) *replacement {
	const width, marked = 1024, float32(0.123456789)
	layers := make([]onnxgraph.Layer, max(1, megabytes<<20/(4*width*width)))
	for i := range layers {
		in := width
		if i == 0 {
			in = 4
		}
		l := onnxgraph.Layer{In: in, Out: width, Activation: "Tanh", Bias: make([]float32, width)}
		l.Weights = make([]float32, in*width)
		for j := range l.Weights {
			l.Weights[j] = float32((j*7919+i)%2003)/2003 - 0.5
		}
		layers[i] = l
	}
	layers[0].Bias[0] = marked
	r := &replacement{file: onnxgraph.Dense("m", layers)}
	r.changed = bytes.Index(r.file, binary.LittleEndian.AppendUint32(nil, math.Float32bits(marked)))
	return r
}

// add adds a version, and takes the one before away.
func (r *replacement) add(t *testing.T, repository string, version int) {
	t.Helper()
	binary.LittleEndian.PutUint32(r.file[r.changed:], math.Float32bits(float32(version)))
	whole := filepath.Join(t.TempDir(), "whole")
	at := func(n int) string { return filepath.Join(repository, "m", strconv.Itoa(n)) }
	for _, err := range []error{
		os.MkdirAll(whole, 0o755), os.WriteFile(filepath.Join(whole, "model.onnx"), r.file, 0o644),
		os.MkdirAll(filepath.Dir(at(version)), 0o755), os.Rename(whole, at(version)), os.RemoveAll(at(version - 1)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

var workerMemory = regexp.MustCompile(`(?m)^weft_worker_memory_bytes{worker="cpu"} (\S+)`)

// engineMemory returns the memory, in MiB, of the process that runs models.
func (s *server) engineMemory(isolation string) int {
	s.t.Helper()
	if isolation == "none" {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.command.Process.Pid))
		var all, resident, shared int
		if _, wrong := fmt.Sscan(string(text), &all, &resident, &shared); err != nil || wrong != nil {
			s.t.Fatal(err, wrong)
		}
		return (resident - shared) * os.Getpagesize() >> 20
	}
	m := workerMemory.FindSubmatch(s.metrics())
	if m == nil {
		s.t.Fatal("no worker has memory")
	}
	bytes, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return int(bytes) >> 20
}

// TestReplacedModels: a model that is replaced again and again under traffic takes the memory of two, and none is left
// of it in the end.
func TestReplacedModels(t *testing.T) {
	nightly(t)
	race.Skip(t, "it measures memory, of which the race detector takes much")
	together(t)
	replacements, sizes := 5, []int{12}
	if weftest.Long() {
		replacements, sizes = 50, []int{12, 40, 200}
	}
	for _, isolation := range []string{"device", "none"} {
		for _, megabytes := range sizes {
			r := newReplacement(megabytes)
			f := r.follow(t, isolation, replacements)
			t.Logf("--isolation %s, %d MB: %d MiB with one; after 1, 2, 4, ... replacements %v, at most %d in %d; %d after the "+
				"last unload; %d answers", isolation, megabytes, f.one, f.course, f.most, replacements, f.left, f.answers)
			spare := 64 // MiB; for the garbage of the server
			if isolation == "device" {
				spare = megabytes / 2
			}
			if f.most > 2*f.one+spare || f.left > f.one+spare {
				t.Errorf("--isolation %s, %d MB: at most %d MiB, and %d at the end, with %d for one", isolation, megabytes,
					f.most, f.left, f.one)
			}
		}
	}
}

// footprint is the memory of the process that runs models, in MiB, while one is replaced.
type footprint struct {
	one, most, left int
	course          []int
	answers         int64
}

// follow replaces the model on a server of its own so many times.
func (r *replacement) follow(t *testing.T, isolation string, replacements int) (f footprint) {
	t.Helper()
	repository := t.TempDir()
	r.add(t, repository, 1)
	weftest.SetManifest(t, repository, "m", "batching: {max_batch_size: 4}")
	s := serve(t, repository, "--isolation="+isolation, "--watch-interval=100ms", "--run-timeout=0")
	defer s.close()
	ctx, end := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	var answers, version atomic.Int64
	for range 2 {
		callers.Go(func() {
			request := floatRequest("m", make([]float32, 16))
			request.Inputs = map[string]*weftv1.Tensor{onnxgraph.MLPInput: request.GetInputs()["x"]}
			for ctx.Err() == nil {
				answer, err := weftv1.NewPredictionServiceClient(s.conn).Predict(ctx, request)
				if err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					return
				}
				answers.Add(1)
				version.Store(answer.GetModel().GetVersion())
			}
		})
	}
	await := func(number int) {
		t.Helper()
		for began := time.Now(); version.Load() != int64(number); <-time.After(10 * time.Millisecond) {
			if time.Since(began) > 10*weftest.Patience { // the large ones take their time
				t.Fatalf("version %d does not answer", number)
			}
		}
	}
	await(1)
	f.one = s.engineMemory(isolation)
	for n := range replacements {
		r.add(t, repository, n+2)
		await(n + 2)
		now := s.engineMemory(isolation)
		f.most = max(f.most, now)
		if (n+1)&n == 0 {
			f.course = append(f.course, now)
		}
	}
	end()
	callers.Wait()
	if err := os.RemoveAll(filepath.Join(repository, "m")); err != nil {
		t.Fatal(err)
	}
	weftest.Until(t, "the end of the last version", func() bool { return s.event("version_unloaded") > replacements })
	f.left, f.answers = s.engineMemory(isolation), answers.Load()
	return f
}
