// Package way shows which functions of the server a Predict passes.
package way

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/tools/lab/harness"
	"github.com/weftserve/weft/tools/lab/harness/harnesstest"
)

func TestMain(m *testing.M) { harnesstest.Main(m) }

// A model that takes a while, so that a request can be looked at while it runs.
const model = `synth:
  base: 400ms
  inputs: {x: {dtype: fp32, shape: [-1, 1]}}
  outputs: {y: {dtype: fp32, shape: [-1, 1]}}
batching: {mode: "off", max_batch_cost: 1m}
`

// TestWayOfAPredict: docs/ARCHITECTURE.md lists the functions that are on the stacks of a Predict while the engine
// runs it: of the goroutine of the call, and of the thread that runs the batch.
func TestWayOfAPredict(t *testing.T) {
	page, err := os.ReadFile("../../../docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `([^`]+\\.go)` \\|").FindAllSubmatch(page, -1) {
		listed = append(listed, string(row[2])+" "+string(row[1]))
	}
	if way := wayOf(t, harnesstest.Weft(t)); !slices.Equal(way, listed) {
		t.Errorf("docs/ARCHITECTURE.md lists\n%s\na Predict passes\n%s", strings.Join(listed, "\n"), strings.Join(way, "\n"))
	}
	if len(listed) > 18 {
		t.Errorf("a Predict passes %d functions: it should be at most 18", len(listed))
	}
}

// wayOf returns file and name of the functions that a Predict passes, from the socket to the engine.
func wayOf(t *testing.T, weft string) []string {
	t.Helper()
	repository := t.TempDir()
	err := harness.WriteAll(repository, map[string][]byte{"m/model.yaml": []byte(model), "m/1/none": nil})
	if err != nil {
		t.Fatal(err)
	}
	s, err := harness.Start(t.Context(), harness.Options{
		Program: weft, Args: harness.Serve(repository, "--pprof"), Log: filepath.Join(t.TempDir(), "log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}()
	conn, err := grpc.NewClient(s.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answered := make(chan error, 1)
	go func() {
		_, err := weftv1.NewPredictionServiceClient(conn).Predict(t.Context(), &weftv1.PredictRequest{
			Model: &weftv1.ModelSpec{Name: "m"},
			Inputs: map[string]*weftv1.Tensor{
				"x": {Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{1, 1}, Raw: make([]byte, 4)},
			},
		})
		answered <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		stacks, err := s.Get(ctx, "/debug/pprof/goroutine?debug=2")
		if err != nil {
			t.Fatal(err)
		}
		call, batch := stackWith(stacks, "shell.(*Scheduler).Do"), stackWith(stacks, "synth.(*Session).Run")
		if call != nil && batch != nil {
			if err := <-answered; err != nil {
				t.Fatal(err)
			}
			return append(call, batch...)
		}
	}
}

var (
	frame   = regexp.MustCompile(`(?m)^github\.com/weftserve/weft/([^\n]+)\([^()\n]*\)\n\t([^\n]+):\d+`)
	closure = regexp.MustCompile(`(\.func\d+)+(\.\d+)*$`)
)

// stackWith returns the product's functions on the stack that has one, from the outermost to that one; nil if there is
// none. What is written within a function counts as that function.
func stackWith(stacks []byte, last string) (way []string) {
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if !strings.Contains(stack, last+"(") {
			continue
		}
		for _, f := range slices.Backward(frame.FindAllStringSubmatch(stack, -1)) {
			name := closure.ReplaceAllString(f[1], "")
			folder, function, _ := cutPackage(name)
			at := folder + "/" + filepath.Base(f[2]) + " " + function
			if !slices.Contains(way, at) {
				way = append(way, at)
			}
			if name == last || strings.HasSuffix(name, "/"+last) {
				return way
			}
		}
	}
	return nil
}

// cutPackage parts a function's name into its package's folder and the rest.
func cutPackage(name string) (folder, function string, found bool) {
	slash := strings.LastIndex(name, "/") + 1
	base, function, found := strings.Cut(name[slash:], ".")
	return name[:slash] + base, function, found
}
