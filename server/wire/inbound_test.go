package wire_test

import (
	"fmt"
	"hash/crc64"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/server/wire"
)

// requests are messages of all kinds: plain ones, and such as only the generated code reads.
func requests() []*weftv1.PredictStreamRequest {
	raw := func(shape ...int64) *weftv1.Tensor {
		return &weftv1.Tensor{Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: shape, Raw: []byte("sixteen bytes...")}
	}
	named := func(name string) *weftv1.ModelSpec { return &weftv1.ModelSpec{Name: name} }
	return []*weftv1.PredictStreamRequest{
		{},
		{Request: &weftv1.PredictRequest{}},
		{Request: &weftv1.PredictRequest{
			Model:  named("policy"),
			Inputs: map[string]*weftv1.Tensor{"x": raw(1, 4), "mask": raw(4)},
		}, Timeout: durationpb.New(1500e6), Supersede: true},
		{Request: &weftv1.PredictRequest{
			Model:     &weftv1.ModelSpec{Name: "policy", VersionChoice: &weftv1.ModelSpec_Version{Version: -3}},
			RequestId: "one", EpisodeId: "é", Priority: 4, TargetLatency: durationpb.New(-1), OutputEncoding: 2,
			EndOfEpisode: true, Outputs: []string{"a", "", "b"},
		}},
		{Request: &weftv1.PredictRequest{
			Model:    &weftv1.ModelSpec{Name: "", VersionChoice: &weftv1.ModelSpec_Label{Label: "stable"}},
			Inputs:   map[string]*weftv1.Tensor{"x": {}, "": raw(-1, 1<<40)},
			Priority: -1, OutputEncoding: 99,
		}},
		{Request: &weftv1.PredictRequest{
			Model:  named("typed"),
			Inputs: map[string]*weftv1.Tensor{"x": {Dtype: 1, Shape: []int64{2}, BoolValues: []bool{true, false}}},
		}},
		{Request: &weftv1.PredictRequest{
			Model:  named("texts"),
			Inputs: map[string]*weftv1.Tensor{"x": {Dtype: 13, Shape: []int64{1}, StringValues: [][]byte{{0xff}}}},
		}},
	}
}

// lists are messages with each of the typed lists.
func lists() []*weftv1.PredictStreamRequest {
	var all []*weftv1.PredictStreamRequest
	for _, r := range servertest.Representations {
		t := proto.CloneOf(r.Typed)
		t.Dtype, t.Shape = wire.DataType(r.DType), []int64{2}
		all = append(all, &weftv1.PredictStreamRequest{Request: &weftv1.PredictRequest{
			Model: &weftv1.ModelSpec{Name: "m"}, Inputs: map[string]*weftv1.Tensor{"x": t},
		}})
	}
	return all
}

// field encodes one of a message.
func field(number protowire.Number, value string) string {
	return string(protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), value))
}

// odd are messages that generated code never writes.
var odd = []string{
	field(1, field(1, "one")) + field(1, field(1, "another")),               // the model comes twice
	field(1, field(1, "m")+field(3, "stable")+"\x10\x01"),                   // a label, then a version
	field(2, field(1, "x")+field(2, "\x08\x0b")) + field(2, field(1, "x")),  // an input comes twice
	field(2, field(2, "\x08\x0b\x10\x01\x10\x02")),                          // a shape that is not packed, without a name
	field(2, field(1, "x")+field(2, field(3, "12345678")+field(3, "wins"))), // elements come twice
	field(4, "\xff"), field(3, "\xff"), field(1, field(1, "\xff")), // no UTF-8
	field(99, "unknown"), "\x0a\xff\xff\xff\xff\x0f", "\x0a\x05abc", "\x0b",
	field(2, field(1, "x")+field(2, field(4, "four")+field(3, "four"))),            // elements in two representations
	field(2, field(1, "x")+field(2, field(3, "four")+field(10, "\x01"))),           // likewise
	field(2, field(1, "x")+field(2, field(4, "five5"))),                            // a number and a part of one
	field(2, field(1, "x")+field(2, field(7, "\x80"))),                             // likewise
	field(2, field(1, "x")+field(2, "\x08\x01\x12\x01\x02"+field(10, "\x02\x00"))), // a bool that is 2
	"\x48\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02",
	"\x30\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x8a\x00" + "\x02\x0a\x00",
}

// known reads messages without fields that they do not have, for which nobody asks.
var known = proto.UnmarshalOptions{DiscardUnknown: true}

// FuzzRead reads a message by hand and by the generated code: both accept the same ones, with the same errors, and find
// the same in them, also in memory that held another message before.
func FuzzRead(f *testing.F) {
	for _, m := range append(requests(), lists()...) {
		for _, m := range []proto.Message{m, m.GetRequest()} {
			data, err := proto.Marshal(m)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
			for at := 1; at < len(data); at += 7 {
				f.Add(data[:at])
			}
		}
	}
	for _, message := range odd {
		f.Add([]byte(message))
		f.Add([]byte(field(1, message)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var used wire.Inbound
		before, err := proto.Marshal(requests()[2])
		if err != nil {
			t.Fatal(err)
		}
		if !used.Scan([][]byte{before}, true) {
			t.Fatal("the message before was not read by hand")
		}
		rng := rand.New(rand.NewPCG(uint64(len(data)), crc64.Checksum(data, crc64.MakeTable(crc64.ISO))))
		for _, pieces := range [][][]byte{{data}, split(rng, data)} {
			var want weftv1.PredictRequest
			checkRead(t, &used, read(&used, pieces, false), known.Unmarshal(data, &want),
				&weftv1.PredictStreamRequest{Request: &want})
			var streamed weftv1.PredictStreamRequest
			checkRead(t, &used, read(&used, pieces, true), known.Unmarshal(data, &streamed), &streamed)
		}
	})
}

// read reads a message by hand, or else by the generated code.
func read(m *wire.Inbound, pieces [][]byte, streamed bool) error {
	if m.Scan(pieces, streamed) {
		return nil
	}
	return m.Unmarshal(slices.Concat(pieces...), streamed)
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

func checkRead(t *testing.T, got *wire.Inbound, err, wantErr error, want *weftv1.PredictStreamRequest) {
	t.Helper()
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("read with the error %v, the generated code has %v", err, wantErr)
	}
	if err != nil {
		return
	}
	is := &weftv1.PredictStreamRequest{Timeout: got.Timeout, Supersede: got.Supersede}
	if got.Request != nil {
		is.Request = got.Clone()
	}
	if !proto.Equal(is, want) {
		t.Fatalf("read %v, the generated code reads %v", is, want)
	}
	for name, m := range want.GetRequest().GetInputs() {
		as := tensor.Spec{Name: name, DType: wire.DType(m.GetDtype()), Shape: m.GetShape()}
		if as.DType == tensor.Invalid {
			continue
		}
		want, _, wantErr := wire.Decode(&as, m)
		is, _, err := got.Decode(&as)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("decoded with the error %v, from generated code with %v", err, wantErr)
		}
		if err == nil && !slices.Equal(is.Clone().Data, want.Clone().Data) {
			t.Fatalf("decoded as %v, from generated code as %v", is, want)
		}
	}
}

// TestPlain: what clients send is read by hand, and the elements of tensors are the bytes that came.
func TestPlain(t *testing.T) {
	plain := 0
	for _, m := range append(requests(), lists()...) {
		data, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var in wire.Inbound
		if !in.Scan([][]byte{data}, true) {
			continue
		}
		plain++
		clear(data)
		for _, in := range in.Request.GetInputs() {
			if raw := string(in.GetRaw()); strings.Trim(raw, "\x00") != "" {
				t.Errorf("the elements %q were copied", raw)
			}
		}
	}
	// All but those without a request, without the name of a model, and with texts.
	if want := 4 + len(servertest.Representations) - 1; plain != want {
		t.Errorf("%d messages were read by hand, want %d", plain, want)
	}
}

// TestReadReuses: the second message of a kind takes no memory, but for a text that lies in two pieces.
func TestReadReuses(t *testing.T) {
	data, err := proto.Marshal(requests()[2])
	if err != nil {
		t.Fatal(err)
	}
	for most, pieces := range map[int][][]byte{2: {data}, 3: slices.Collect(slices.Chunk(data, 60))} {
		var m wire.Inbound
		if n := testing.AllocsPerRun(10, func() {
			if !m.Scan(pieces, true) {
				t.Fatal("it was not read by hand")
			}
			m.Forget()
		}); int(n) > most {
			t.Errorf("reading a message of %d pieces took %v pieces of memory", len(pieces), n)
		}
	}
}
