package tfserving_test

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weftserve/weft/proto/gen/tensorflow"
	"github.com/weftserve/weft/proto/gen/tensorflow/serving"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
)

func shape(sizes ...int64) *tensorflow.TensorShapeProto {
	s := &tensorflow.TensorShapeProto{}
	for _, size := range sizes {
		s.Dim = append(s.Dim, &tensorflow.TensorShapeProto_Dim{Size: size})
	}
	return s
}

func floats(values ...float32) []byte {
	var raw []byte
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return raw
}

// observation is a request of one row.
func observation(x *tensorflow.TensorProto) *serving.PredictRequest {
	x.Dtype = tensorflow.DataType_DT_FLOAT
	if x.GetTensorShape() == nil {
		x.TensorShape = shape(1, 4)
	}
	return &serving.PredictRequest{
		ModelSpec: &serving.ModelSpec{Name: "policy"}, Inputs: map[string]*tensorflow.TensorProto{"observation": x},
	}
}

func clientOf(h *servertest.House) serving.PredictionServiceClient {
	return serving.NewPredictionServiceClient(h.Conn)
}

// TestPredict: elements in one piece and in a list, whose last one stands for the others, give right answers.
func TestPredict(t *testing.T) {
	h := servertest.New(t, server.Config{})
	for name, c := range map[string]struct {
		x    *tensorflow.TensorProto
		want []byte // action and value
	}{
		"content": {&tensorflow.TensorProto{TensorContent: floats(1, 2, 3, 4)}, floats(1, 2, 10)},
		"list":    {&tensorflow.TensorProto{FloatVal: []float32{1, 2, 3, 4}}, floats(1, 2, 10)},
		"first":   {&tensorflow.TensorProto{FloatVal: []float32{1, 2}}, floats(1, 2, 7)},
		"none":    {&tensorflow.TensorProto{}, floats(0, 0, 0)},
		"one":     {&tensorflow.TensorProto{FloatVal: []float32{3}}, floats(3, 3, 12)},
	} {
		got, err := clientOf(h).Predict(t.Context(), observation(c.x))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		action, value := got.GetOutputs()["action"], got.GetOutputs()["value"]
		if raw := slices.Concat(action.GetTensorContent(), value.GetTensorContent()); !slices.Equal(raw, c.want) ||
			action.GetDtype() != tensorflow.DataType_DT_FLOAT || !proto.Equal(action.GetTensorShape(), shape(1, 2)) ||
			got.GetModelSpec().GetVersion().GetValue() != 2 {
			t.Errorf("%s: %v", name, got)
		}
	}
	q := observation(&tensorflow.TensorProto{FloatVal: []float32{1}})
	q.OutputFilter = []string{"value"}
	q.ModelSpec.VersionChoice = &serving.ModelSpec_VersionLabel{VersionLabel: "stable"}
	got, err := clientOf(h).Predict(t.Context(), q)
	if err != nil || len(got.GetOutputs()) != 1 || got.GetModelSpec().GetVersion().GetValue() != 1 {
		t.Errorf("one output of a label: %v, %v", got, err)
	}
}

// TestRefused is what only this protocol has; the test of all protocols has the others.
func TestRefused(t *testing.T) {
	h := servertest.New(t, server.Config{})
	for says, change := range map[string]func(q *serving.PredictRequest, x *tensorflow.TensorProto){
		"model.name": func(q *serving.PredictRequest, _ *tensorflow.TensorProto) { q.ModelSpec = nil },
		"signature_name: expected serving_default": func(q *serving.PredictRequest, _ *tensorflow.TensorProto) {
			q.ModelSpec.SignatureName = "x"
		},
		`inputs["observation"].dtype: expected DT_FLOAT, got DT_INT32`: func(
			_ *serving.PredictRequest, x *tensorflow.TensorProto,
		) {
			x.Dtype = tensorflow.DataType_DT_INT32
		},
		`inputs["observation"].float_val: expected 4 elements, or the first of them, got 5 elements`: func(
			_ *serving.PredictRequest, x *tensorflow.TensorProto,
		) {
			x.FloatVal = make([]float32, 5)
		},
		`the last one stands for others of at most`: func(_ *serving.PredictRequest, x *tensorflow.TensorProto) {
			x.TensorShape = shape(1<<20, 4)
		},
	} {
		x := &tensorflow.TensorProto{FloatVal: []float32{1}}
		q := observation(x)
		change(q, x)
		_, err := clientOf(h).Predict(t.Context(), q)
		servertest.WantCode(t, err, codes.InvalidArgument, says)
	}
}

// TestTypes: each element type comes to the model in one piece and in its list, and goes back.
func TestTypes(t *testing.T) {
	lists := map[tensor.DType]func(*tensorflow.TensorProto, bool){
		tensor.Bool:     func(m *tensorflow.TensorProto, _ bool) { m.BoolVal = []bool{false, true} },
		tensor.Int8:     func(m *tensorflow.TensorProto, _ bool) { m.IntVal = []int32{-128, 127} },
		tensor.Int16:    func(m *tensorflow.TensorProto, _ bool) { m.IntVal = []int32{-32768, 32767} },
		tensor.Int32:    func(m *tensorflow.TensorProto, _ bool) { m.IntVal = []int32{-1, 0x01020304} },
		tensor.Int64:    func(m *tensorflow.TensorProto, _ bool) { m.Int64Val = []int64{-2, 0x0102030405060708} },
		tensor.Uint8:    func(m *tensorflow.TensorProto, _ bool) { m.IntVal = []int32{0, 255} },
		tensor.Uint16:   func(m *tensorflow.TensorProto, _ bool) { m.IntVal = []int32{0, 65535} },
		tensor.Uint32:   func(m *tensorflow.TensorProto, _ bool) { m.Uint32Val = []uint32{0, math.MaxUint32} },
		tensor.Uint64:   func(m *tensorflow.TensorProto, _ bool) { m.Uint64Val = []uint64{1, math.MaxUint64} },
		tensor.Float16:  func(m *tensorflow.TensorProto, _ bool) { m.HalfVal = []int32{0x3c00, 0xc000} },
		tensor.BFloat16: func(m *tensorflow.TensorProto, _ bool) { m.HalfVal = []int32{0x3f80, 0xc000} },
		tensor.Float32:  func(m *tensorflow.TensorProto, _ bool) { m.FloatVal = []float32{1, -2} },
		tensor.Float64:  func(m *tensorflow.TensorProto, _ bool) { m.DoubleVal = []float64{1, -2} },
		tensor.String:   func(m *tensorflow.TensorProto, _ bool) { m.StringVal = [][]byte{{0xff, 0}, {}} },
	}
	h := servertest.New(t, server.Config{})
	var came []byte
	h.Run = func(_ context.Context, call *catalog.Call) error {
		came = slices.Clone(call.Inputs[0].Data)
		call.Results = []tensor.Tensor{call.Inputs[0].Clone()}
		return nil
	}
	names := tensorflow.DataType_value
	for _, r := range servertest.Representations {
		v := servertest.PolicyVersion(1, catalog.Ready)
		spec := []tensor.Spec{{Name: "x", DType: r.DType, Shape: tensor.Shape{tensor.Unknown}, BatchDim: 0}}
		v.Signature = &tensor.Signature{Inputs: spec, Outputs: spec}
		h.Current.Store(servertest.SnapshotOf(2, &catalog.Model{Name: "policy", Versions: []*catalog.Version{v}}))
		name := map[string]string{"fp16": "HALF", "bf16": "BFLOAT16", "fp32": "FLOAT", "fp64": "DOUBLE"}[r.DType.String()]
		if name == "" {
			name = strings.ToUpper(r.DType.String())
		}
		for _, listed := range []bool{true, false} {
			m := &tensorflow.TensorProto{Dtype: tensorflow.DataType(names["DT_"+name]), TensorShape: shape(2)}
			switch {
			case listed:
				lists[r.DType](m, true)
			case r.DType == tensor.String:
				continue
			default:
				m.TensorContent = []byte(r.Raw)
			}
			got, err := clientOf(h).Predict(t.Context(), &serving.PredictRequest{
				ModelSpec: &serving.ModelSpec{Name: "policy", SignatureName: "serving_default"},
				Inputs:    map[string]*tensorflow.TensorProto{"x": m},
			})
			if err != nil || string(came) != r.Raw {
				t.Errorf("%v: came as %q, want %q: %v", r.DType, came, r.Raw, err)
				continue
			}
			back := got.GetOutputs()["x"]
			if r.DType == tensor.String && !slices.EqualFunc(back.GetStringVal(), m.GetStringVal(), slices.Equal) ||
				r.DType != tensor.String && string(back.GetTensorContent()) != r.Raw || back.GetDtype() != m.GetDtype() {
				t.Errorf("%v: went back as %v", r.DType, back)
			}
		}
	}
	if len(lists) != len(servertest.Representations) {
		t.Errorf("%d types were tried", len(lists))
	}
}

// TestFacts: the signature, and the states of versions.
func TestFacts(t *testing.T) {
	h := servertest.New(t, server.Config{})
	about, err := clientOf(h).GetModelMetadata(t.Context(), &serving.GetModelMetadataRequest{
		ModelSpec: &serving.ModelSpec{Name: "policy"}, MetadataField: []string{"signature_def"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var signatures serving.SignatureDefMap
	if err := about.GetMetadata()["signature_def"].UnmarshalTo(&signatures); err != nil {
		t.Fatal(err)
	}
	in := signatures.GetSignatureDef()["serving_default"].GetInputs()["observation"]
	if in.GetDtype() != tensorflow.DataType_DT_FLOAT || !proto.Equal(in.GetTensorShape(), shape(-1, 4)) {
		t.Errorf("the input is %v", in)
	}
	_, err = clientOf(h).GetModelMetadata(t.Context(), &serving.GetModelMetadataRequest{
		ModelSpec: &serving.ModelSpec{Name: "policy"},
	})
	servertest.WantCode(t, err, codes.InvalidArgument, "metadata_field: expected signature_def, got none")
	models := serving.NewModelServiceClient(h.Conn)
	for _, c := range []struct {
		spec *serving.ModelSpec
		want string
	}{
		{&serving.ModelSpec{Name: "policy"}, "4 END, 3 LOADING, 2 AVAILABLE, 1 AVAILABLE"},
		{
			&serving.ModelSpec{Name: "policy", VersionChoice: &serving.ModelSpec_Version{Version: wrapperspb.Int64(3)}},
			"3 LOADING",
		},
		{
			&serving.ModelSpec{Name: "policy", VersionChoice: &serving.ModelSpec_VersionLabel{VersionLabel: "stable"}},
			"1 AVAILABLE",
		},
		{
			&serving.ModelSpec{Name: "policy", VersionChoice: &serving.ModelSpec_Version{Version: wrapperspb.Int64(9)}},
			"NotFound",
		},
		{&serving.ModelSpec{Name: "policy", VersionChoice: &serving.ModelSpec_VersionLabel{VersionLabel: "x"}}, "NotFound"},
		{&serving.ModelSpec{Name: "x"}, "NotFound"},
	} {
		all, err := models.GetModelStatus(t.Context(), &serving.GetModelStatusRequest{ModelSpec: c.spec})
		if c.want == "NotFound" {
			servertest.WantCode(t, err, codes.NotFound, "")
			continue
		}
		var got []string
		for _, v := range all.GetModelVersionStatus() {
			got = append(got, strings.Join([]string{wrapperspb.Int64(v.GetVersion()).String()[6:], v.GetState().String()}, " "))
		}
		if s := strings.Join(got, ", "); err != nil || s != c.want {
			t.Errorf("%v: %s, want %s: %v", c.spec, s, c.want, err)
		}
	}
}
