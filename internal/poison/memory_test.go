//go:build linux

package poison

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// TestMemory: an answer that is too large takes no memory of the server, and a run that takes too much is the fault of
// its request.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes much memory")
	}
	together(t)
	repository := t.TempDir()
	// With and without a batch dimension: the second is not batched.
	addModel(t, repository, "rows", "x[N,1]; MatMul(x, ConstantOfShape([1,500000]))", "batching: {max_batch_size: 2}")
	addModel(t, repository, "whole", "n:i64[a]; ConstantOfShape(n)", "")
	addModel(t, repository, "sum", "n:i64[a]; ReduceSum{keepdims=0}(ConstantOfShape(n))", "")
	bound, elements := "700MiB", int64(100_000_000)
	if long() {
		bound, elements = "5GiB", 900_000_000
	}
	s := serve(t, repository, "--worker-memory="+bound)
	request := func(model string, inputs map[string]*weftv1.Tensor) *weftv1.PredictRequest {
		return &weftv1.PredictRequest{Model: &weftv1.ModelSpec{Name: model}, Inputs: inputs}
	}
	floats := func(shape ...int64) *weftv1.Tensor {
		n := int64(1)
		for _, d := range shape {
			n *= d
		}
		return &weftv1.Tensor{Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: shape, FloatValues: make([]float32, n)}
	}
	expand := func(model string, elements int64) *weftv1.PredictRequest {
		return request(model, map[string]*weftv1.Tensor{"n": {
			Dtype: weftv1.DataType_DATA_TYPE_INT64, Shape: []int64{1}, Int64Values: []int64{elements},
		}})
	}
	for _, c := range []struct {
		name string
		r    *weftv1.PredictRequest
		code codes.Code
		want string // reason
	}{
		{"a row within the limit", request("rows", map[string]*weftv1.Tensor{"x": floats(1, 1)}), codes.OK, ""},
		{"rows above it", request("rows", map[string]*weftv1.Tensor{"x": floats(40, 1)}), codes.ResourceExhausted, tooLarge},
		{"an answer far above it", expand("whole", elements), codes.ResourceExhausted, tooLarge},
		{"a run that takes too much", expand("sum", 4_000_000_000), codes.ResourceExhausted, exhausted},
	} {
		proc := fmt.Sprintf("/proc/%d/clear_refs", s.command.Process.Pid)
		if err := os.WriteFile(proc, []byte("5"), 0); err != nil { // sets the peak to the present
			t.Fatal(err)
		}
		before, start := s.peakMemory(), time.Now()
		_, err := ask(t, s, c.r)
		grown := s.peakMemory() - before
		t.Logf("%s: after %v the server had %d MiB more: %.300v", c.name, time.Since(start), grown>>20, err)
		reason := ""
		for _, d := range status.Convert(err).Details() {
			if info, is := d.(*errdetails.ErrorInfo); is {
				reason = info.GetReason()
			}
		}
		if status.Code(err) != c.code || reason != c.want {
			t.Errorf("%s: %v of the reason %q, want %v and %q", c.name, err, reason, c.code, c.want)
		}
		if grown > 100<<20 {
			t.Errorf("%s: the server had %d MiB more", c.name, grown>>20)
		}
	}
}

var peak = regexp.MustCompile(`VmHWM:\s*(\d+) kB`)

// peakMemory returns the most memory that the server has taken since the peak was set.
func (s *server) peakMemory() int {
	s.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.command.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	m := peak.FindSubmatch(text)
	if m == nil {
		s.t.Fatalf("no peak in %s", text)
	}
	kb, err := strconv.Atoi(string(m[1]))
	if err != nil {
		s.t.Fatal(err)
	}
	return kb << 10
}
