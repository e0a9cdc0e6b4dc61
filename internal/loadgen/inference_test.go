package loadgen

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	oip "github.com/weftserve/weft/proto/gen/inference"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// TestInferenceMessage: the same request, of each type, as the protocol has it.
func TestInferenceMessage(t *testing.T) {
	for number, name := range weftv1.DataType_name {
		d := weftv1.DataType(number)
		if d == weftv1.DataType_DATA_TYPE_UNSPECIFIED {
			continue
		}
		s := stream(func(s *Stream) { s.Rows, s.Version = 2, 7 })
		all, err := s.payloads(signatureOf(spec("x", d, 0, -1, 3)), inference{})
		if err != nil {
			t.Fatal(name, err)
		}
		var q oip.ModelInferRequest
		if err := proto.Unmarshal(all[0].encoded, &q); err != nil {
			t.Fatal(name, err)
		}
		own, err := s.payloads(signatureOf(spec("x", d, 0, -1, 3)), native{})
		if err != nil {
			t.Fatal(name, err)
		}
		in, want := q.GetInputs()[0], decoded(t, own[0]).GetInputs()["x"]
		raw := want.GetRaw()
		for _, text := range want.GetStringValues() {
			raw = append(append(raw, byte(len(text)), 0, 0, 0), text...)
		}
		if dataTypeOf(in.GetDatatype()) != d || !bytes.Equal(q.GetRawInputContents()[0], raw) || len(raw) == 0 {
			t.Errorf("%s: %v, %x; want %x", name, in, q.GetRawInputContents(), raw)
		}
		if q.GetModelVersion() != "7" || len(q.GetParameters()) != 0 {
			t.Errorf("%s: version %q, parameters %v", name, q.GetModelVersion(), q.GetParameters())
		}
	}
}

// TestInferenceAsks for what the request of weft.v1 asks for.
func TestInferenceAsks(t *testing.T) {
	m, err := inference{}.message(&weftv1.PredictRequest{
		Model:     &weftv1.ModelSpec{Name: "m", VersionChoice: &weftv1.ModelSpec_Label{Label: "stable"}},
		EpisodeId: "e", EndOfEpisode: true, Outputs: []string{"y"}, TargetLatency: durationpb.New(5 * time.Millisecond),
		Priority: weftv1.Priority_PRIORITY_SHEDDABLE,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &oip.ModelInferRequest{
		ModelName: "m", Outputs: []*oip.ModelInferRequest_InferRequestedOutputTensor{{Name: "y"}},
		Parameters: map[string]*oip.InferParameter{
			"label":          {ParameterChoice: &oip.InferParameter_StringParam{StringParam: "stable"}},
			"sequence_id":    {ParameterChoice: &oip.InferParameter_StringParam{StringParam: "e"}},
			"sequence_end":   {ParameterChoice: &oip.InferParameter_BoolParam{BoolParam: true}},
			"target_latency": {ParameterChoice: &oip.InferParameter_Int64Param{Int64Param: 5000}},
			"priority":       {ParameterChoice: &oip.InferParameter_Int64Param{Int64Param: 4}},
		},
	}
	if diff := cmp.Diff(want, m, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}
