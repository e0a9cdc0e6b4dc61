package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/examples/plant"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/proto/weftclient"
)

// fakeServer answers with a simple cart-pole policy, without an engine. The label "bad" names a version
// that answers too many values, every other label the error of its name.
type fakeServer struct {
	weftv1.UnimplementedPredictionServiceServer
	weftv1.UnimplementedModelServiceServer
	newest int64
	keeps  bool // what the model remembers
	asked  []*weftv1.PredictRequest
}

func (s *fakeServer) GetModel(context.Context, *weftv1.GetModelRequest) (*weftv1.GetModelResponse, error) {
	return &weftv1.GetModelResponse{Model: &weftv1.Model{Versions: []*weftv1.ModelVersion{{
		KeptInputs: []*weftv1.KeptInput{{Input: "h", Output: "hn"}, {Input: "frames", Window: 3}},
	}}}}, nil
}

func (s *fakeServer) resolve(spec *weftv1.ModelSpec) (int64, error) {
	if spec.GetName() != "cartpole" {
		return 0, status.Errorf(codes.NotFound, "no model %q; there are: cartpole", spec.GetName())
	}
	switch spec.GetLabel() {
	case "", "bad":
	case "full":
		return 0, status.Error(codes.ResourceExhausted, "full")
	case "slow":
		return 0, status.Error(codes.DeadlineExceeded, "slow")
	default:
		return 0, status.Error(codes.Internal, "broken")
	}
	if v := spec.GetVersion(); v != 0 {
		return v, nil
	}
	return s.newest, nil
}

func (s *fakeServer) GetModelMetadata(_ context.Context,
	r *weftv1.GetModelMetadataRequest,
) (*weftv1.GetModelMetadataResponse, error) {
	v, err := s.resolve(r.GetModel())
	if err != nil {
		return nil, err
	}
	spec := func(name string, width int64) []*weftv1.TensorSpec {
		return []*weftv1.TensorSpec{{Name: name, Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{-1, width}}}
	}
	inputs := spec("observation", 4)
	if s.keeps {
		inputs = append(inputs, spec("h", 8)...)
	}
	return &weftv1.GetModelMetadataResponse{
		Model:     version(strconv.FormatInt(v, 10)).spec("cartpole"),
		Signature: &weftv1.Signature{Inputs: inputs, Outputs: spec("action", 1)},
	}, nil
}

func (s *fakeServer) Predict(_ context.Context, r *weftv1.PredictRequest) (*weftv1.PredictResponse, error) {
	v, err := s.resolve(r.GetModel())
	if err != nil {
		return nil, err
	}
	observed, err := weftclient.Values[float32](r.GetInputs()["observation"])
	if err != nil {
		return nil, err
	}
	action := []float32{5*observed[2] + observed[3]} // towards the side to which the pole falls
	if r.GetModel().GetLabel() == "bad" {
		action = []float32{1, 2}
	}
	if s.keeps {
		s.asked = append(s.asked, r)
	}
	return &weftv1.PredictResponse{
		Model:     version(strconv.FormatInt(v, 10)).spec("cartpole"),
		Outputs:   weftclient.Tensors{"action": weftclient.FromSlice(action, 1, int64(len(action)))},
		Execution: &weftv1.ExecutionInfo{BatchRows: 3},
	}, nil
}

// serve starts the fake server and returns its address.
func serve(t *testing.T) string {
	t.Helper()
	return (&fakeServer{newest: 3}).start(t)
}

func (s *fakeServer) start(t *testing.T) string {
	t.Helper()
	server := grpc.NewServer()
	weftv1.RegisterPredictionServiceServer(server, s)
	weftv1.RegisterModelServiceServer(server, s)
	return weftest.Serve(t, server)
}

// dial returns a client of the model and machine of that name.
func dial(t *testing.T, addr, model, machine string) *client {
	t.Helper()
	kind, err := plant.Lookup(machine)
	if err != nil {
		t.Fatal(err)
	}
	server, err := weftclient.New(addr, weftclient.WithAttempts(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return &client{Client: server, model: model, kind: kind}
}

func TestActOutcomes(t *testing.T) {
	c := dial(t, serve(t), "cartpole", "cartpole")
	tilted := []float32{0, 0, 0.1, 0}
	for _, test := range []struct {
		version version
		want    outcome
		served  int64
	}{
		{"", answered, 3},
		{"2", answered, 2},
		{"full", refused, 0},
		{"slow", late, 0},
		{"broken", failed, 0},
		{"bad", failed, 0},
	} {
		a := c.act(t.Context(), observation{version: test.version, episode: "e", values: tilted})
		if a.outcome != test.want || a.version != test.served || (a.err == nil) != (test.want == answered) {
			t.Errorf("version %q: outcome %d by version %d with error %v, want outcome %d by version %d",
				test.version, a.outcome, a.version, a.err, test.want, test.served)
		}
		if a.outcome == answered && (len(a.action) != 1 || a.rows != 3 || a.latency <= 0) {
			t.Errorf("version %q: answer %+v, want one action, 3 rows and a latency", test.version, a)
		}
	}
}

// TestStateStaysInTheServer: the steps of an episode are numbered, and the latest one ends it.
func TestStateStaysInTheServer(t *testing.T) {
	fake := &fakeServer{newest: 3, keeps: true}
	c := dial(t, fake.start(t), "cartpole", "cartpole")
	if err := c.check(t.Context(), ""); err != nil || !c.keeps {
		t.Fatalf("the server keeps state: %v, %v", c.keeps, err)
	}
	for range 2 {
		if a := c.act(t.Context(), observation{episode: "e", values: []float32{0, 0, 0.1, 0}}); a.err != nil {
			t.Fatal(a.err)
		}
	}
	c.finish(t.Context(), &episode{name: "e"})
	var got []string
	for _, q := range fake.asked {
		got = append(got, fmt.Sprint(q.GetEpisodeId(), q.GetStep(), q.GetBeginEpisode(), q.GetEndOfEpisode(), q.GetOutputs()))
	}
	want := []string{"e1 true false [action]", "e2 false false [action]", "e2 false true [action]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestCheckSaysWhatToDo(t *testing.T) {
	addr := serve(t)
	for _, test := range []struct {
		name, addr, model, machine string
		want                       string // in the error; empty: none
	}{
		{"fits", addr, "cartpole", "cartpole", ""},
		{"no server", "127.0.0.1:1", "cartpole", "cartpole", "go run ./cmd/weft serve examples/models"},
		{"no model", addr, "walker", "cartpole", "cannot steer with model walker"},
		{"another machine", addr, "cartpole", "hopper", "--machine"},
	} {
		err := dial(t, test.addr, test.model, test.machine).check(t.Context(), "")
		if test.want == "" && err != nil || test.want != "" &&
			(err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: error %v, want one with %q", test.name, err, test.want)
		}
	}
}
