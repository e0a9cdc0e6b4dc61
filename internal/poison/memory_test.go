//go:build linux

package poison

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"

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
	t.Setenv("GOGC", "100") // it is what requests take that is measured here, not the garbage that the collector leaves
	repository := t.TempDir()
	addModel(t, repository, "rows", "x[N,1]; MatMul(x, ConstantOfShape([1,500000]))", "batching: {max_batch_size: 2}")
	addModel(t, repository, "whole", "n:i64[a]; ConstantOfShape(n)", "")
	addModel(t, repository, "sum", "n:i64[a]; ReduceSum{keepdims=0}(ConstantOfShape(n))", "")
	rows := func(n int) *weftv1.PredictRequest {
		r := floatRequest("rows", make([]float32, 4*n))
		r.Inputs["x"].Shape = []int64{int64(4 * n), 1}
		return r
	}
	values := func(model string, n int64) *weftv1.PredictRequest {
		return &weftv1.PredictRequest{Model: &weftv1.ModelSpec{Name: model}, Inputs: map[string]*weftv1.Tensor{
			"n": {Dtype: weftv1.DataType_DATA_TYPE_INT64, Shape: []int64{1}, Int64Values: []int64{n}},
		}}
	}
	for _, isolation := range []string{"device", "none"} {
		s := serve(t, repository, "--isolation="+isolation, "--worker-memory=400MiB")
		for _, c := range []struct {
			name   string
			r      *weftv1.PredictRequest
			code   codes.Code
			reason string
		}{
			{"an answer in parts that is too large", rows(10), codes.ResourceExhausted, tooLarge},
			{"an answer of 100 MB", values("whole", 25_000_000), codes.ResourceExhausted, tooLarge},
			{"an answer of 40 kB", values("whole", 10_000), codes.OK, ""},
			{"a run that takes too much", values("sum", 4_000_000_000), codes.ResourceExhausted, exhausted},
		} {
			if c.reason == exhausted && isolation == "none" {
				continue // it would take the memory of the machine
			}
			before := s.resetPeak()
			_, err := ask(t, s, c.r)
			grown := s.peakMemory() - before
			t.Logf("%s, %s: the server had %d MiB more: %.300v", isolation, c.name, grown>>20, err)
			reason := ""
			for _, d := range status.Convert(err).Details() {
				if info, is := d.(*errdetails.ErrorInfo); is {
					reason = info.GetReason()
				}
			}
			if status.Code(err) != c.code || reason != c.reason {
				t.Errorf("%s, %s: %v of the reason %q, want %v and %q", isolation, c.name, err, reason, c.code, c.reason)
			}
			if isolation != "none" && grown > 50<<20 {
				t.Errorf("%s, %s: the server had %d MiB more", isolation, c.name, grown>>20)
			}
		}
		s.close()
	}
}

// resetPeak sets the most memory that the server has taken to the memory that it takes now, and returns that.
func (s *server) resetPeak() int {
	s.t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.command.Process.Pid), []byte("5"), 0); err != nil {
		s.t.Fatal(err)
	}
	return s.peakMemory()
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
