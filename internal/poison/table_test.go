//go:build linux

package poison

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/onnxgraph/sketch"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// The kinds of ends that a poison can come to; a signal or an exit status is one, too.
const (
	hung   = "hang"   // over 2 s
	memory = "memory" // over 2 GiB resident
	large  = "large"  // an answer of 64 MiB or more
)

// A poison is a block of lines of testdata/poisons.txt: its name, its kind, whether opening it does it or running it,
// and "quick" if the short form has it, too; its sketch; and its inputs, if it has any.
type poison struct {
	sketch, inputs    string
	name, kind, where string
	quick             bool
}

//go:embed testdata/poisons.txt
var table string

// poisons reads the table.
func poisons(t testing.TB) (all []poison) {
	t.Helper()
	for block := range strings.SplitSeq(table, "\n\n") {
		var lines []string
		for line := range strings.SplitSeq(block, "\n") {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				lines = append(lines, line)
			}
		}
		if len(lines) == 0 {
			continue
		}
		head := strings.Fields(lines[0])
		if len(lines) > 3 || len(lines) < 2 || len(head) < 3 {
			t.Fatalf("a block of the table is not of the form name kind where, sketch, inputs:\n%s", block)
		}
		p := poison{sketch: lines[1], name: head[0], kind: head[1], where: head[2]}
		p.quick = len(head) == 4 && head[3] == "quick"
		if len(lines) == 3 {
			p.inputs = lines[2]
		}
		all = append(all, p)
	}
	return all
}

// takesMuch reports whether it ends, but takes much memory before: a machine may show that as a hang, too.
func (p *poison) takesMuch() bool { return p.kind == memory || p.kind == large }

// nightly has a test run only in the long form: it takes a third of a minute.
func nightly(t *testing.T) {
	t.Helper()
	if !weftest.Long() {
		t.Skip("it takes a third of a minute; WEFT_LONG=1 has it run")
	}
}

// together has a test run with others, whose waits for runs that hang take no processor. The long forms measure time,
// and run by themselves.
func together(t *testing.T) {
	t.Helper()
	if !weftest.Long() {
		t.Parallel()
	}
}

// served returns the poisons for the wire.
func served(t testing.TB) (some []poison) {
	for _, p := range poisons(t) {
		if p.quick || weftest.Long() {
			some = append(some, p)
		}
	}
	return some
}

// request is a poison on the wire.
func (p *poison) request(t testing.TB) *weftv1.PredictRequest {
	t.Helper()
	values, err := sketch.ParseValues(p.inputs)
	if err != nil {
		t.Fatal(err)
	}
	r := &weftv1.PredictRequest{Model: &weftv1.ModelSpec{Name: p.name}, Inputs: map[string]*weftv1.Tensor{}}
	for name, v := range values {
		in := &weftv1.Tensor{Dtype: wireTypes[v.DType], Shape: v.Shape, Raw: v.Raw}
		for _, s := range v.Strings {
			in.StringValues = append(in.StringValues, []byte(s))
		}
		r.Inputs[name] = in
	}
	return r
}

// wireTypes are the element types of requests.
var wireTypes = map[onnxgraph.DType]weftv1.DataType{
	onnxgraph.Float: weftv1.DataType_DATA_TYPE_FP32, onnxgraph.Double: weftv1.DataType_DATA_TYPE_FP64,
	onnxgraph.Float16: weftv1.DataType_DATA_TYPE_FP16, onnxgraph.Int64: weftv1.DataType_DATA_TYPE_INT64,
	onnxgraph.Int32: weftv1.DataType_DATA_TYPE_INT32, onnxgraph.Int16: weftv1.DataType_DATA_TYPE_INT16,
	onnxgraph.Int8: weftv1.DataType_DATA_TYPE_INT8, onnxgraph.Uint64: weftv1.DataType_DATA_TYPE_UINT64,
	onnxgraph.Uint32: weftv1.DataType_DATA_TYPE_UINT32, onnxgraph.Uint16: weftv1.DataType_DATA_TYPE_UINT16,
	onnxgraph.Uint8: weftv1.DataType_DATA_TYPE_UINT8, onnxgraph.Bool: weftv1.DataType_DATA_TYPE_BOOL,
	onnxgraph.String: weftv1.DataType_DATA_TYPE_STRING,
}
