package onnxgraph_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weftserve/weft/internal/onnxgraph"
)

// field is one decoded field of a message: a number, or bytes that may be a message again.
type field struct {
	number uint64
	bytes  []byte
}

// decode reads one message into its fields by field number, in order.
func decode(t *testing.T, b []byte) map[protowire.Number][]field {
	t.Helper()
	fields := map[protowire.Number][]field{}
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			t.Fatalf("tag: %v", protowire.ParseError(n))
		}
		b = b[n:]
		var f field
		switch typ {
		case protowire.VarintType:
			f.number, n = protowire.ConsumeVarint(b)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(b)
			f.number = uint64(v)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(b)
		default:
			t.Fatalf("field %d has wire type %d, which ONNX does not use", num, typ)
		}
		if n < 0 {
			t.Fatalf("field %d: %v", num, protowire.ParseError(n))
		}
		fields[num] = append(fields[num], f)
		b = b[n:]
	}
	return fields
}

// texts returns a field's values as strings.
func texts(fields []field) []string {
	var out []string
	for _, f := range fields {
		out = append(out, string(f.bytes))
	}
	return out
}

// path follows the first value of each field number into nested messages.
func path(t *testing.T, b []byte, numbers ...protowire.Number) field {
	t.Helper()
	f := field{bytes: b}
	for _, num := range numbers {
		next := decode(t, f.bytes)[num]
		if len(next) == 0 {
			t.Fatalf("no field %d on the path %v", num, numbers)
		}
		f = next[0]
	}
	return f
}

func TestModelHeader(t *testing.T) {
	g := onnxgraph.New("tiny").Opset("", 13).Opset("com.microsoft", 1).IRVersion(7).Metadata("owner", "me")
	b := g.Marshal()

	model := decode(t, b)
	if got := model[1][0].number; got != 7 {
		t.Errorf("ir_version = %d, want 7", got)
	}
	if got := string(path(t, b, 7, 2).bytes); got != "tiny" {
		t.Errorf("graph name = %q, want tiny", got)
	}
	if got := len(model[8]); got != 2 {
		t.Errorf("%d opset_import entries, want 2: the standard one is replaced, not repeated", got)
	}
	opsets := map[string]uint64{}
	for _, f := range model[8] {
		m := decode(t, f.bytes)
		opsets[string(m[1][0].bytes)] = m[2][0].number
	}
	if diff := cmp.Diff(map[string]uint64{"": 13, "com.microsoft": 1}, opsets); diff != "" {
		t.Errorf("opset_import (-want +got):\n%s", diff)
	}
	if got := string(path(t, b, 14, 2).bytes); got != "me" {
		t.Errorf("metadata value = %q, want me", got)
	}
}

func TestValueInfoDims(t *testing.T) {
	b := onnxgraph.New("g").Input("x", onnxgraph.Float16, "batch", 3, int64(4), nil).Marshal()

	input := path(t, b, 7, 11).bytes
	if got := string(path(t, input, 1).bytes); got != "x" {
		t.Errorf("name = %q, want x", got)
	}
	if got := path(t, input, 2, 1, 1).number; got != uint64(onnxgraph.Float16) {
		t.Errorf("elem_type = %d, want %d", got, onnxgraph.Float16)
	}
	var dims []any
	for _, f := range decode(t, path(t, input, 2, 1, 2).bytes)[1] {
		switch dim := decode(t, f.bytes); {
		case dim[1] != nil:
			dims = append(dims, int64(dim[1][0].number))
		case dim[2] != nil:
			dims = append(dims, string(dim[2][0].bytes))
		default:
			dims = append(dims, nil)
		}
	}
	if diff := cmp.Diff([]any{"batch", int64(3), int64(4), nil}, dims); diff != "" {
		t.Errorf("dims (-want +got):\n%s", diff)
	}
}

func TestBadDimPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a float dim did not panic")
		}
	}()
	onnxgraph.New("g").Input("x", onnxgraph.Float, 1.5)
}

func TestNode(t *testing.T) {
	g := onnxgraph.New("g")
	g.DomainNode("com.microsoft", "Mystery", []string{"a", "", "b"}, []string{"y"},
		onnxgraph.IntsAttr("axes", 1, -1), onnxgraph.FloatAttr("alpha", 0.5), onnxgraph.StringAttr("mode", "up"),
		onnxgraph.TensorAttr("value", onnxgraph.Uint8, []int64{2}, []byte{7, 8}))
	node := path(t, g.Marshal(), 7, 1).bytes

	fields := decode(t, node)
	if diff := cmp.Diff([]string{"a", "", "b"}, texts(fields[1])); diff != "" {
		t.Errorf("inputs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"y"}, texts(fields[2])); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
	if op, domain := string(fields[4][0].bytes), string(fields[7][0].bytes); op != "Mystery" ||
		domain != "com.microsoft" {
		t.Errorf("op %s of domain %s, want Mystery of com.microsoft", op, domain)
	}
	// The kinds are AttributeProto.AttributeType: INTS, FLOAT, STRING, TENSOR.
	for i, want := range []uint64{7, 1, 3, 4} {
		if got := decode(t, fields[5][i].bytes)[20][0].number; got != want {
			t.Errorf("attribute %d has type %d, want %d", i, got, want)
		}
	}
	axes := decode(t, fields[5][0].bytes)[8]
	if len(axes) != 2 || int64(axes[0].number) != 1 || int64(axes[1].number) != -1 {
		t.Errorf("axes = %v, want 1 and -1", axes)
	}
	if got := path(t, fields[5][1].bytes, 2).number; got != 0x3f000000 {
		t.Errorf("alpha = %#x, want the bits of 0.5", got)
	}
	if got := path(t, fields[5][3].bytes, 5, 9).bytes; !bytes.Equal(got, []byte{7, 8}) {
		t.Errorf("tensor value = %v, want [7 8]", got)
	}
}

func TestInitializers(t *testing.T) {
	g := onnxgraph.New("g")
	g.InitFloats("f", []int64{2}, 1, -2)
	g.InitInt64s("i", []int64{1}, -1)
	g.InitStrings("s", []int64{2}, "", "é")
	g.ExternalInit("e", onnxgraph.Float, []int64{3, 5}, "weights.bin", 64, 60)
	tensors := decode(t, path(t, g.Marshal(), 7).bytes)[5]

	if got := path(t, tensors[0].bytes, 9).bytes; !bytes.Equal(got, []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0}) {
		t.Errorf("raw floats = %x", got)
	}
	if got := path(t, tensors[1].bytes, 9).bytes; !bytes.Equal(got, bytes.Repeat([]byte{0xff}, 8)) {
		t.Errorf("raw int64s = %x", got)
	}
	if diff := cmp.Diff([]string{"", "é"}, texts(decode(t, tensors[2].bytes)[6])); diff != "" {
		t.Errorf("string_data (-want +got):\n%s", diff)
	}
	external := decode(t, tensors[3].bytes)
	if len(external[1]) != 2 || external[1][0].number != 3 || external[1][1].number != 5 {
		t.Errorf("dims = %v, want 3 and 5", external[1])
	}
	if external[14][0].number != 1 || external[9] != nil {
		t.Errorf("external tensor: data_location %v, raw_data %v; want EXTERNAL and none", external[14], external[9])
	}
	got := map[string]string{}
	for _, f := range external[13] {
		e := decode(t, f.bytes)
		got[string(e[1][0].bytes)] = string(e[2][0].bytes)
	}
	if diff := cmp.Diff(map[string]string{"location": "weights.bin", "offset": "64", "length": "60"}, got); diff != "" {
		t.Errorf("external_data (-want +got):\n%s", diff)
	}
}
