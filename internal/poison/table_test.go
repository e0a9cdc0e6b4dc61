//go:build linux

package poison

import (
	_ "embed"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/onnxgraph/sketch"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// A poison is a block of lines of testdata/poisons.txt: its name, its kind, whether opening it does it or running it,
// and "quick" if the short form has it, too; its sketch; and its inputs, if it has any.
type poison struct {
	candidate
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
		p := poison{candidate: candidate{Sketch: lines[1]}, name: head[0], kind: head[1], where: head[2]}
		p.quick = len(head) == 4 && head[3] == "quick"
		if len(lines) == 3 {
			p.Inputs = lines[2]
		}
		all = append(all, p)
	}
	return all
}

// takesMuch reports whether it ends, but takes much memory before: a machine may show that as a hang, too.
func (p *poison) takesMuch() bool { return p.kind == memory || p.kind == large }

// longVariable asks for the long forms: all poisons, and so many kills and stops.
const longVariable = "WEFT_POISON"

func long() bool { return os.Getenv(longVariable) != "" }

// times returns how often a thing is to be done that the short form does so often.
func times(short int) int {
	if n, err := strconv.Atoi(os.Getenv(longVariable)); err == nil {
		return n
	}
	return short
}

// together has a test run with others, whose waits for runs that hang take no processor. The long forms measure time,
// and run by themselves.
func together(t *testing.T) {
	t.Helper()
	if !long() {
		t.Parallel()
	}
}

// served returns the poisons for the wire.
func served(t testing.TB) (some []poison) {
	for _, p := range poisons(t) {
		if p.quick || long() {
			some = append(some, p)
		}
	}
	return some
}

// request is a poison on the wire.
func (p *poison) request(t testing.TB) *weftv1.PredictRequest {
	t.Helper()
	values, err := sketch.ParseValues(p.Inputs)
	if err != nil {
		t.Fatal(err)
	}
	r := &weftv1.PredictRequest{Model: &weftv1.ModelSpec{Name: p.name}, Inputs: map[string]*weftv1.Tensor{}}
	for name, v := range values {
		in := &weftv1.Tensor{Dtype: wireType(v.DType), Shape: v.Shape, Raw: v.Raw}
		for _, s := range v.Strings {
			in.StringValues = append(in.StringValues, []byte(s))
		}
		r.Inputs[name] = in
	}
	return r
}

func wireType(d onnxgraph.DType) weftv1.DataType {
	return weftv1.DataType(weftv1.DataType_value["DATA_TYPE_"+strings.ToUpper(dataTypes[d].String())])
}

// TestTable runs each poison by itself, without a server, and compares its end with the table.
func TestTable(t *testing.T) {
	if !long() {
		t.Skip(longVariable + "=1000 has it run")
	}
	r := &runner{t: t}
	defer r.close()
	for _, p := range poisons(t) {
		e := r.try(p.candidate)
		if e.Kind == answered && e.Bytes >= largeAnswer {
			e.Kind = large
		}
		if e.Kind != p.kind && !(p.takesMuch() && (e.Kind == hung || e.Kind == memory || e.Kind == large)) ||
			e.Where != p.where {
			t.Errorf("%s: %s by %s, the table has %s by %s: %s", p.name, e.Kind, e.Where, p.kind, p.where, e.Text)
		}
	}
}
