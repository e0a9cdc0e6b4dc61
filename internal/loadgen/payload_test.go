package loadgen

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

func spec(name string, dtype weftv1.DataType, batchDim int32, shape ...int64) *weftv1.TensorSpec {
	s := &weftv1.TensorSpec{Name: name, Dtype: dtype, Shape: shape}
	if batchDim >= 0 {
		s.BatchDim = new(batchDim)
	}
	return s
}

func signatureOf(inputs ...*weftv1.TensorSpec) *weftv1.Signature {
	return &weftv1.Signature{Inputs: inputs}
}

func decoded(t *testing.T, p payload) *weftv1.PredictRequest {
	t.Helper()
	var q weftv1.PredictRequest
	if err := proto.Unmarshal(p.encoded, &q); err != nil {
		t.Fatal(err)
	}
	return &q
}

// TestMadeUpRequests have the shapes and sizes that the model declares. They differ, but in inputs without rows.
func TestMadeUpRequests(t *testing.T) {
	s := stream(func(s *Stream) { s.Rows, s.OpenDims, s.Version, s.Priority = 3, 5, 2, "sheddable_plus" })
	types := []weftv1.DataType{
		weftv1.DataType_DATA_TYPE_FP64, weftv1.DataType_DATA_TYPE_FP32, weftv1.DataType_DATA_TYPE_FP16,
		weftv1.DataType_DATA_TYPE_BF16, weftv1.DataType_DATA_TYPE_INT64, weftv1.DataType_DATA_TYPE_BOOL,
	}
	sizes := []int{8, 4, 2, 2, 8, 1}
	var inputs []*weftv1.TensorSpec
	for _, d := range types {
		inputs = append(inputs, spec(d.String(), d, 1, 4, -1, -1))
	}
	inputs = append(inputs, spec("words", weftv1.DataType_DATA_TYPE_STRING, 0, -1, 2),
		spec("state", weftv1.DataType_DATA_TYPE_FP32, -1, 7))
	all, err := s.payloads(signatureOf(inputs...), native{})
	if err != nil || len(all) != variants {
		t.Fatalf("%d requests, %v", len(all), err)
	}
	first, second := decoded(t, all[0]), decoded(t, all[1])
	for i, d := range types {
		got := first.GetInputs()[d.String()]
		if diff := cmp.Diff([]int64{4, 3, 5}, got.GetShape()); diff != "" || len(got.GetRaw()) != 4*3*5*sizes[i] {
			t.Errorf("%v: shape %v, %d bytes", d, got.GetShape(), len(got.GetRaw()))
		}
		if proto.Equal(got, second.GetInputs()[d.String()]) {
			t.Errorf("%v: two requests have the same values", d)
		}
	}
	if words := first.GetInputs()["words"]; len(words.GetStringValues()) != 6 {
		t.Errorf("words: %v", words)
	}
	if diff := cmp.Diff(first.GetInputs()["state"], second.GetInputs()["state"], protocmp.Transform()); diff != "" {
		t.Errorf("an input without rows differs, which keeps requests apart:\n%s", diff)
	}
	if first.GetModel().GetVersion() != 2 || first.GetPriority() != weftv1.Priority_PRIORITY_SHEDDABLE_PLUS ||
		all[0].rows != 3 {
		t.Errorf("%v, %v, %d rows", first.GetModel(), first.GetPriority(), all[0].rows)
	}
}

func TestLargeRequestsAreFew(t *testing.T) {
	s := stream(func(*Stream) {})
	all, err := s.payloads(signatureOf(spec("x", weftv1.DataType_DATA_TYPE_INT8, 0, -1, variantBytes/2)), native{})
	if err != nil || len(all) != 1 {
		t.Errorf("%d requests of half of the bound, %v; want 1", len(all), err)
	}
}

func TestReply(t *testing.T) {
	answer := &weftv1.PredictResponse{
		Outputs:   map[string]*weftv1.Tensor{"y": {Raw: make([]byte, 1000)}},
		RequestId: "7", Model: &weftv1.ModelSpec{Name: "policy"},
		Execution: &weftv1.ExecutionInfo{QueueUs: 5, ComputeUs: 6, BatchRows: 7, Device: "cpu"},
	}
	encoded, err := proto.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	into := &reply{execution: weftv1.ExecutionInfo{PaddedRows: 9}} // of the answer before
	halves := mem.BufferSlice{mem.SliceBuffer(encoded[:500]), mem.SliceBuffer(encoded[500:])}
	if err := (codec{}).Unmarshal(halves, into); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(answer.GetExecution(), &into.execution, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if err := into.decode(nil); err != nil || into.execution.GetQueueUs() != 0 {
		t.Errorf("%v; an answer without an execution has that of the answer before: %v", err, &into.execution)
	}
	if err := into.decode(encoded[:len(encoded)-1]); err == nil {
		t.Error("half an answer was read")
	}
}
