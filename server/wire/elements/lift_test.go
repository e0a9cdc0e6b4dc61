package elements_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/proto/gen/tensorflow"
	"github.com/weftserve/weft/proto/gen/tensorflow/serving"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/wire/elements"
)

// liftedMessage is a kind of message whose large values are lifted.
type liftedMessage struct {
	large elements.Fields
	fresh func() proto.Message
	// restore puts the values into the message.
	restore func(*elements.Lifted, proto.Message)
}

var messages = map[string]liftedMessage{
	"Open Inference Protocol": {
		elements.Fields{7: {List: elements.Raw}, 5: {Within: elements.Fields{5: {Within: elements.Fields{
			6: {List: elements.Float}, 7: {List: elements.Double},
		}}}}},
		func() proto.Message { return &inference.ModelInferRequest{} },
		func(l *elements.Lifted, into proto.Message) {
			m := into.(*inference.ModelInferRequest)
			for i, came := range m.GetRawInputContents() {
				m.RawInputContents[i] = bytesOf(l.Bytes(came))
			}
			for _, in := range m.GetInputs() {
				c := in.GetContents()
				if c != nil {
					c.Fp32Contents = listOf[float32](l.Singles(c.GetFp32Contents()))
					c.Fp64Contents = listOf[float64](l.Doubles(c.GetFp64Contents()))
				}
			}
		},
	},
	"TensorFlow Serving": {
		elements.Fields{2: {Within: elements.Fields{2: {Within: elements.Fields{
			4: {List: elements.Raw}, 5: {List: elements.Float}, 6: {List: elements.Double},
		}}}}},
		func() proto.Message { return &serving.PredictRequest{} },
		func(l *elements.Lifted, into proto.Message) {
			for _, t := range into.(*serving.PredictRequest).GetInputs() {
				if t != nil {
					t.TensorContent = bytesOf(l.Bytes(t.GetTensorContent()))
					t.FloatVal = listOf[float32](l.Singles(t.GetFloatVal()))
					t.DoubleVal = listOf[float64](l.Doubles(t.GetDoubleVal()))
				}
			}
		},
	},
}

func bytesOf(e elements.Elements) []byte {
	all := slices.Concat(e.Pieces...)
	if len(all) != e.Count {
		panic(fmt.Sprintf("%d bytes are %q", e.Count, all))
	}
	return all
}

func listOf[T any](e elements.Elements) []T {
	list, all := make([]T, e.Count), slices.Concat(e.Pieces...)
	if n, err := binary.Decode(all, binary.LittleEndian, list); err != nil || n != len(all) {
		panic(fmt.Sprintf("%d floats are %q: %v", e.Count, all, err))
	}
	return list
}

// check decodes a message with its values lifted, which finds what the generated code finds.
func check(t *testing.T, l *elements.Lifted, of liftedMessage, pieces [][]byte) {
	t.Helper()
	want, got := of.fresh(), of.fresh()
	broken := protect.Unmarshal(slices.Concat(pieces...), want)
	if err := l.Unmarshal(pieces, got, of.large); (err == nil) != (broken == nil) {
		t.Fatalf("%v, the generated code says %v", err, broken)
	}
	if broken != nil {
		return
	}
	if of.restore(l, got); !proto.Equal(got, want) {
		t.Fatalf("read %v, the generated code reads %v", got, want)
	}
}

func encoded(tb testing.TB, m proto.Message) []byte {
	tb.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// samples are requests with values of several kinds.
func samples() []proto.Message {
	content := func(data string) *tensorflow.TensorProto {
		return &tensorflow.TensorProto{
			Dtype: tensorflow.DataType_DT_FLOAT, TensorContent: []byte(data), FloatVal: []float32{1},
			TensorShape: &tensorflow.TensorShapeProto{Dim: []*tensorflow.TensorShapeProto_Dim{{Size: 4}}},
		}
	}
	return []proto.Message{
		&inference.ModelInferRequest{
			ModelName: "policy", Id: "é", RawInputContents: [][]byte{[]byte("four"), {}, {0}},
			Parameters: map[string]*inference.InferParameter{
				"d": {ParameterChoice: &inference.InferParameter_DoubleParam{DoubleParam: 0.1}}, "f": {},
			},
			Inputs: []*inference.ModelInferRequest_InferInputTensor{
				{Name: "x", Datatype: "FP32", Shape: []int64{1, -1}},
				{Contents: &inference.InferTensorContents{}},
				{Contents: &inference.InferTensorContents{BytesContents: [][]byte{{0xff}, {}}, IntContents: []int32{-1}}},
				{Contents: &inference.InferTensorContents{Fp32Contents: []float32{1, 2}, Fp64Contents: []float64{3}}},
				{Contents: &inference.InferTensorContents{Fp64Contents: []float64{4, 5}}},
			},
		},
		&serving.PredictRequest{
			ModelSpec: &serving.ModelSpec{Name: "policy"}, OutputFilter: []string{"y"},
			Inputs: map[string]*tensorflow.TensorProto{"a": content("abcdefgh"), "b": content(""), "c": content("\x00")},
		},
	}
}

// FuzzLift: a message whose values are lifted is decoded as the generated code decodes it, also in memory that held
// another one.
func FuzzLift(f *testing.F) {
	for _, m := range samples() {
		data := encoded(f, m)
		f.Add(data)
		for at := 1; at < len(data); at += 5 {
			f.Add(data[:at])
		}
		f.Add(append(data, data...))
		f.Add(append(protowire.AppendFixed32(protowire.AppendTag(nil, 7, protowire.Fixed32Type), 1), data...))
		f.Add(append(data, protowire.AppendTag(nil, 99, protowire.StartGroupType)...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		rng := rand.New(rand.NewPCG(uint64(len(data)), 1))
		for _, of := range messages {
			var l elements.Lifted
			check(t, &l, of, [][]byte{data})
			check(t, &l, of, split(rng, data))
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

// TestLiftedLies: values are not copied, however many small ones stand beside them, and those before are let go of.
func TestLiftedLies(t *testing.T) {
	var l elements.Lifted
	for n := 60; n < 70; n++ {
		m := &inference.ModelInferRequest{RawInputContents: slices.Repeat([][]byte{{1, 2}}, n)}
		data := encoded(t, m)
		check(t, &l, messages["Open Inference Protocol"], [][]byte{data})
		got := &inference.ModelInferRequest{}
		if err := l.Unmarshal([][]byte{data}, got, messages["Open Inference Protocol"].large); err != nil {
			t.Fatal(err)
		}
		last := l.Bytes(got.GetRawInputContents()[n-1])
		if lies := &last.Pieces[0][1] == &data[len(data)-1]; lies != (n <= 64) {
			t.Errorf("of %d values the last one lies where it came: %t", n, lies)
		}
	}
	if l.Reset(); l.Bytes([]byte{1}).Count != 1 {
		t.Error("a value is held on to")
	}
}

// TestSmallPartsTakeLittle: what is about to be refused must not take a multiple of its bytes first.
func TestSmallPartsTakeLittle(t *testing.T) {
	texts := &inference.InferTensorContents{BytesContents: make([][]byte, 1<<20)}
	for name, m := range map[string]*inference.ModelInferRequest{
		"texts":  {Inputs: []*inference.ModelInferRequest_InferInputTensor{{Name: "x", Contents: texts}}},
		"values": {RawInputContents: slices.Repeat([][]byte{{1}}, 1<<20)},
	} {
		data := encoded(t, m)
		var l elements.Lifted
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := l.Unmarshal([][]byte{data}, &inference.ModelInferRequest{}, messages["Open Inference Protocol"].large)
		runtime.ReadMemStats(&after)
		_, heavy := errors.AsType[*protect.DecodeError](err)
		if took := after.TotalAlloc - before.TotalAlloc; !heavy || took > 12<<20 {
			t.Errorf("%d bytes of small %s took %d: %v", len(data), name, took, err)
		}
	}
}
