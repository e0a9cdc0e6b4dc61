package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/ortlib"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/ort"
	"github.com/weftserve/weft/tools/lab/harness"
	"github.com/weftserve/weft/tools/lab/harness/harnesstest"
)

func TestMain(m *testing.M) { harnesstest.Main(m) }

// repository holds one small policy, with a recorded answer if adjust is there: the one that the engine of these checks
// gives, after adjust had its way with it.
func repository(t *testing.T, adjust func(answer []byte)) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "policy", "1", "model.onnx")
	const inputs, actions = 8, 2
	if err := harness.Write(path, onnxgraph.MLP("policy", []int{inputs, 16, actions}, 1, "Tanh", "")); err != nil {
		t.Fatal(err)
	}
	if adjust == nil {
		return dir
	}
	question := randomFloats(inputs)
	answer := answerOf(t, path, question)
	adjust(answer)
	tensor := func(name string, width int, data []byte) map[string]any {
		return map[string]any{
			"name": name, "datatype": "FP32", "shape": []int{1, width},
			"data_b64": base64.StdEncoding.EncodeToString(data),
		}
	}
	cases, err := json.Marshal(map[string]any{"cases": []any{map[string]any{
		"inputs":  []any{tensor(onnxgraph.MLPInput, inputs, question)},
		"outputs": []any{tensor(onnxgraph.MLPOutput, actions, answer)},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := harness.Write(filepath.Join(dir, "policy", "1", references), cases); err != nil {
		t.Fatal(err)
	}
	return dir
}

// answerOf returns the answer of a model without a server to one row.
func answerOf(t *testing.T, path string, question []byte) []byte {
	t.Helper()
	library, err := ortlib.Find()
	if err != nil {
		t.Fatal(err)
	}
	e, err := newEngine(library, cpu)
	if err != nil {
		t.Fatal(err)
	}
	session, err := ort.Open(path, e.options)
	if err != nil {
		t.Fatal(err)
	}
	b := randomBatch(session.Signature(), 1)
	defer b.Free()
	copy(b.Inputs[0].Data, question)
	if err := errors.Join(session.Run(t.Context(), b), session.Close()); err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(b.Outputs[0].Data)
}

// checked runs the command on the CPU and returns its status, the table and the rows.
func checked(t *testing.T, args ...string) (status int, table string, rows []row) {
	t.Helper()
	weft := harnesstest.Weft(t)
	t.Setenv("WEFT_TEST_MODELS", "") // which has its own test
	out := filepath.Join(t.TempDir(), "out")
	var stdout, stderr bytes.Buffer
	status = run(t.Context(), append([]string{"--weft", weft, "--device", "cpu", "--out", out}, args...), &stdout,
		&stderr)
	t.Logf("status %d\n%s%s", status, stdout.String(), stderr.String())
	data, err := os.ReadFile(filepath.Join(out, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	return status, stdout.String(), rows
}

// verdictOf returns the verdict on the first row whose check begins so.
func verdictOf(t *testing.T, rows []row, check string) string {
	t.Helper()
	for _, r := range rows {
		if strings.HasPrefix(r.Check, check) {
			return r.Verdict
		}
	}
	t.Errorf("there is no row about %q", check)
	return ""
}

func TestEveryCheckOnTheCPU(t *testing.T) {
	status, table, rows := checked(t, "--models", repository(t, func([]byte) {}), "--span", "400ms")
	if status != 0 {
		t.Errorf("status %d, want 0", status)
	}
	for check, want := range map[string]string{
		"correctness: ":                           passed,
		"saturation: batch":                       told,
		"saturation: device busy":                 told,
		"saturation: a full batch was waiting":    told,
		"saturation: no batch in flight":          told,
		"saturation: throughput":                  told,
		"weights 2:1":                             told,
		"policy: CUDA graphs":                     skipped,
		"policy: batch of 1":                      told,
		"policy: replayed graphs":                 passed,
		"lanes: answers of 2 models at once":      passed,
		"loading: a steady policy alone":          told,
		"loading: the same while another model":   told,
		"memory: beyond onnx.device_memory_limit": skipped,
		"memory: beyond device":                   passed,
		"telemetry":                               skipped,
	} {
		if got := verdictOf(t, rows, check); got != want {
			t.Errorf("%s is %q, want %q", check, got, want)
		}
	}
	if !strings.Contains(table, "| skipped |") {
		t.Errorf("the table does not show what was skipped:\n%s", table)
	}
}

func TestWrongAnswerFails(t *testing.T) {
	const highestByte = 3
	wrong := repository(t, func(answer []byte) { answer[highestByte] ^= 0x80 }) // the sign of the first action
	status, table, rows := checked(t, "--models", wrong, "--only", "correctness")
	if status != statusFailed {
		t.Errorf("status %d, want %d", status, statusFailed)
	}
	if got := verdictOf(t, rows, "correctness: "); got != failed || !strings.Contains(table, "as recorded") {
		t.Errorf("the verdict is %q, want %q and where", got, failed)
	}
}

// TestMissedBoundFails sets a bound that cannot be reached.
func TestMissedBoundFails(t *testing.T) {
	weft := harnesstest.Weft(t)
	o := options{
		Weft: weft, Out: t.TempDir(), Device: cpu, Span: 200 * time.Millisecond, Limit: time.Hour,
		Only: []string{"saturation", "weights"},
	}
	s, err := newSuite(&o, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	s.report.soft = false
	s.bounds = bounds{batch: time.Hour, full: 2, gap: -time.Hour, busy: 1.01, throughput: 1000, share: -1}
	if err := s.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if err := s.report.publish(&table); err == nil || !strings.Contains(err.Error(), errFailed.Error()) {
		t.Errorf("the verdict is %v, want %v", err, errFailed)
	}
	t.Log(table.String())
	for _, check := range []string{
		"saturation: batch", "saturation: device busy", "saturation: time per batch", "saturation: no batch in flight",
		"saturation: throughput", "weights 2:1",
	} {
		if got := verdictOf(t, s.report.rows, check); got != failed {
			t.Errorf("%s is %q, want %q", check, got, failed)
		}
	}
}

// TestEnoughMemoryShowsNothing: a request that does not run out of memory shows nothing of the effects of running out.
func TestEnoughMemoryShowsNothing(t *testing.T) {
	weft := harnesstest.Weft(t)
	s, err := newSuite(&options{Weft: weft, Out: t.TempDir(), Device: cpu, Span: 100 * time.Millisecond},
		&bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.runOut(t.Context(), shortage{name: "enough", meal: 1000}); err != nil {
		t.Fatal(err)
	}
	if got := verdictOf(t, s.report.rows, "memory: enough"); got != failed {
		t.Errorf("the verdict is %q, want %q", got, failed)
	}
}

func TestDeviceThatIsNotThereFails(t *testing.T) {
	status, table, rows := checked(t, "--models", repository(t, nil), "--device", "cuda:99")
	if status != statusFailed || len(rows) != 2 || verdictOf(t, rows[1:], "device") != failed ||
		!strings.Contains(table, "cuda") {
		t.Errorf("status %d, rows %v; want one that says that there is no such device", status, rows)
	}
}

func TestCommandLineIsChecked(t *testing.T) {
	weft := harnesstest.Weft(t)
	for _, args := range [][]string{
		{"--device", "tpu"},
		{"--only", "nonesuch"},
		{"--weft", "nonesuch"},
		{"--models", "nonesuch"},
		{"--span", "1ms"},
		{"--nonesuch"},
	} {
		var stdout, stderr bytes.Buffer
		if status := run(t.Context(), append([]string{"--weft", weft, "--models", t.TempDir()}, args...), &stdout,
			&stderr); status != statusUsage {
			t.Errorf("%v: status %d, want %d", args, status, statusUsage)
		}
		if !strings.Contains(stderr.String(), args[len(args)-1]) {
			t.Errorf("%v: %q does not name the fault", args, stderr.String())
		}
	}
}

// TestQuestionsAreMadeUp: where nothing is recorded every type can be asked.
func TestQuestionsAreMadeUp(t *testing.T) {
	s := &weftv1.Signature{}
	for number := range weftv1.DataType_name {
		if number != 0 {
			s.Inputs = append(s.Inputs, &weftv1.TensorSpec{
				Name: weftv1.DataType(number).String(), Dtype: weftv1.DataType(number), Shape: []int64{-1, 3},
				BatchDim: new(int32),
			})
		}
	}
	for _, q := range madeUp(s) {
		for name, in := range q.inputs {
			o := output(name, in)
			if err := o.Check(); err != nil || in.GetShape()[1] != 3 {
				t.Errorf("%s: %v, %v", name, in.GetShape(), err)
			}
		}
	}
}
