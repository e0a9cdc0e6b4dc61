package openinference

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/server/wire/elements"
)

// generated returns the message that was read, as the generated code has it.
func (m *message) generated() *inference.ModelInferRequest {
	q := &inference.ModelInferRequest{
		ModelName: m.model, ModelVersion: m.version, Id: m.id, Parameters: generated(m.parameters),
	}
	for _, in := range m.inputs[:m.came] {
		i := &inference.ModelInferRequest_InferInputTensor{
			Name: in.name, Datatype: in.datatype, Shape: in.shape, Parameters: generated(in.parameters),
		}
		if in.contents {
			i.Contents = &inference.InferTensorContents{BytesContents: in.texts}
			for _, e := range append(in.more, in.left) {
				if e.List == elements.None {
					continue
				}
				number := protowire.Number(slices.Index(lists[:], e.List))
				field := protowire.AppendTag(nil, number, protowire.BytesType)
				field = protowire.AppendBytes(field, slices.Concat(e.Pieces...))
				if err := (proto.UnmarshalOptions{Merge: true}).Unmarshal(field, i.GetContents()); err != nil {
					panic(err)
				}
			}
		}
		q.Inputs = append(q.Inputs, i)
	}
	for _, o := range m.outputs {
		q.Outputs = append(q.Outputs, &inference.ModelInferRequest_InferRequestedOutputTensor{
			Name: o.name, Parameters: generated(o.parameters),
		})
	}
	for _, raw := range m.raw {
		q.RawInputContents = append(q.RawInputContents, slices.Concat(raw.Pieces...))
	}
	return q
}

func generated(all []parameter) map[string]*inference.InferParameter {
	out := map[string]*inference.InferParameter{}
	for i := range all {
		p := &all[i]
		v := &inference.InferParameter{}
		field := protowire.AppendTag(nil, protowire.Number(max(1, p.kind)), protowire.VarintType)
		switch p.kind {
		case 0:
			field = nil
		case isText:
			v.ParameterChoice = &inference.InferParameter_StringParam{StringParam: p.text}
			field = nil
		case isDouble:
			field = protowire.AppendTag(nil, isDouble, protowire.Fixed64Type)
			field = protowire.AppendFixed64(field, p.number)
		default:
			field = protowire.AppendVarint(field, p.number)
		}
		if err := (proto.UnmarshalOptions{Merge: true}).Unmarshal(field, v); err != nil {
			panic(err)
		}
		out[p.key] = v
	}
	return out
}

// samples are requests with all that there may be.
func samples() []*inference.ModelInferRequest {
	text := func(s string) *inference.InferParameter {
		return &inference.InferParameter{ParameterChoice: &inference.InferParameter_StringParam{StringParam: s}}
	}
	return []*inference.ModelInferRequest{
		{},
		{
			ModelName: "policy", ModelVersion: "2", Id: "é",
			Parameters: map[string]*inference.InferParameter{
				"a": text(""), "b": {ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: true}},
				"c": {ParameterChoice: &inference.InferParameter_Int64Param{Int64Param: -1}},
				"d": {ParameterChoice: &inference.InferParameter_DoubleParam{DoubleParam: 0.1}},
				"e": {ParameterChoice: &inference.InferParameter_Uint64Param{Uint64Param: 1 << 63}}, "f": {},
			},
			Inputs: []*inference.ModelInferRequest_InferInputTensor{
				{Name: "x", Datatype: "FP32", Shape: []int64{1, -1}},
				{},
				{Parameters: map[string]*inference.InferParameter{"": text("x")}},
			},
			Outputs:          []*inference.ModelInferRequest_InferRequestedOutputTensor{{Name: "y"}, {}},
			RawInputContents: [][]byte{[]byte("four"), {}},
		},
		{Inputs: []*inference.ModelInferRequest_InferInputTensor{
			{Contents: &inference.InferTensorContents{BoolContents: []bool{true}}},
			{Contents: &inference.InferTensorContents{IntContents: []int32{-1, 2}}},
			{Contents: &inference.InferTensorContents{Int64Contents: []int64{-1 << 63}}},
			{Contents: &inference.InferTensorContents{UintContents: []uint32{1 << 31}}},
			{Contents: &inference.InferTensorContents{Uint64Contents: []uint64{1 << 63}}},
			{Contents: &inference.InferTensorContents{Fp32Contents: []float32{1.5}}},
			{Contents: &inference.InferTensorContents{Fp64Contents: []float64{-2}}},
			{Contents: &inference.InferTensorContents{BytesContents: [][]byte{{0xff}, {}, []byte("text")}}},
			{Contents: &inference.InferTensorContents{}},
		}},
	}
}

// FuzzRead reads messages by hand: what it finds in those that it accepts is what the generated code finds, also in
// memory that held another message; and what that writes it accepts.
func FuzzRead(f *testing.F) {
	for _, m := range samples() {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		for at := 1; at < len(data); at += 5 {
			f.Add(data[:at])
		}
		f.Add(append(data, data...))
	}
	before, err := proto.Marshal(samples()[1])
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want inference.ModelInferRequest
		broken := proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, &want)
		var m message
		if !m.read([][]byte{before}, false) {
			t.Fatal("a plain message is not read by hand")
		}
		rng := rand.New(rand.NewPCG(uint64(len(data)), 1))
		for _, pieces := range [][][]byte{{data}, split(rng, data)} {
			if !m.read(pieces, false) {
				continue
			}
			if broken != nil {
				t.Fatalf("read, the generated code says %v", broken)
			}
			if got := m.generated(); !proto.Equal(got, &want) {
				t.Fatalf("read %v, the generated code reads %v", got, &want)
			}
		}
		if broken != nil {
			return
		}
		plain, err := proto.Marshal(&want)
		if err != nil {
			t.Fatal(err)
		}
		if !m.read([][]byte{plain}, true) {
			t.Fatalf("what the generated code writes is not read: %v", &want)
		}
		if got := m.generated(); !proto.Equal(got, &want) {
			t.Fatalf("read %v, the generated code wrote %v", got, &want)
		}
	})
}

// split cuts a message into pieces, some of them empty.
func split(rng *rand.Rand, data []byte) [][]byte {
	var pieces [][]byte
	for len(data) > 0 {
		n := rng.IntN(min(len(data), 9) + 1)
		pieces = append(pieces, slices.Clone(data[:n]))
		data = data[n:]
	}
	return append(pieces, nil)
}

// TestReadReuses: the second message of a kind takes no memory.
func TestReadReuses(t *testing.T) {
	q := samples()[1]
	q.Parameters, q.Id, q.Inputs = nil, "", q.GetInputs()[:1]
	data, err := proto.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	var m message
	pieces := [][]byte{data}
	if n := testing.AllocsPerRun(10, func() {
		if !m.read(pieces, false) {
			t.Fatal("it was not read by hand")
		}
	}); n > 1 { // the text of its version
		t.Errorf("reading took %v pieces of memory", n)
	}
}

// TestManyParts: a message with more parts than are read by hand as they came is read, and not held on to.
func TestManyParts(t *testing.T) {
	q := &inference.ModelInferRequest{ModelName: "m"}
	for i := range 3 * most {
		q.Inputs = append(q.Inputs, &inference.ModelInferRequest_InferInputTensor{Name: strconv.Itoa(i)})
	}
	data, err := proto.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	var m message
	if m.read([][]byte{data}, false) {
		t.Error("it is held on to")
	}
	if !m.read([][]byte{data}, true) || m.came != 3*most {
		t.Errorf("%d inputs were read", m.came)
	}
	if m.reset(); len(m.inputs) != 0 {
		t.Errorf("%d inputs are held on to", len(m.inputs))
	}
}

// TestManyTextsTakeLittle: what is about to be refused must not take a multiple of its bytes first.
func TestManyTextsTakeLittle(t *testing.T) {
	contents := &inference.InferTensorContents{BytesContents: make([][]byte, 1<<20)}
	data, err := proto.Marshal(&inference.ModelInferRequest{
		ModelName: "m", Inputs: []*inference.ModelInferRequest_InferInputTensor{{Name: "x", Contents: contents}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	plain := new(message).read([][]byte{data}, false)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; plain || took > 8<<20 {
		t.Errorf("%d bytes of empty texts took %d, and were read: %v", len(data), took, plain)
	}
}
