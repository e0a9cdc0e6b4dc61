package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/prototext"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/episode"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/servertest"
)

// recurrentHouse serves the model of recurrent alone, for so many episodes.
func recurrentHouse(t *testing.T, episodes int) (*servertest.House, *episode.Store) {
	t.Helper()
	store := episode.NewStore(episode.Config{Memory: 1 << 20})
	h := servertest.New(t, server.Config{Episodes: store})
	v := recurrent(1)
	v.EpisodeState.MaxEpisodes = episodes
	h.Current.Store(servertest.SnapshotOf(1, &catalog.Model{Name: "gru", Versions: []*catalog.Version{v}}))
	h.Run = func(_ context.Context, call *catalog.Call) error { runRecurrent(call); return nil }
	return h, store
}

// inSequence is a request of one row, with what tritonclient sends with it.
func inSequence(id string, x int64, parameters map[string]*inference.InferParameter) *inference.ModelInferRequest {
	return &inference.ModelInferRequest{
		ModelName: "gru", Id: id, Parameters: parameters,
		Inputs: []*inference.ModelInferRequest_InferInputTensor{
			{Name: "x", Datatype: "INT64", Shape: []int64{1, 1}}, {Name: "seen", Datatype: "INT64", Shape: []int64{1, 1}},
		},
		RawInputContents: [][]byte{ints(nil, x).Data, ints(nil, x).Data},
	}
}

// TestSequencesOnAStream: requests of several episodes on a stream of the Open Inference Protocol run in their order.
func TestSequencesOnAStream(t *testing.T) {
	h, store := recurrentHouse(t, 10)
	s, err := inference.NewGRPCInferenceServiceClient(h.Conn).ModelStreamInfer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	alone := []memory{begun(), begun(), begun()}
	want := map[string]int64{}
	for i := range 300 {
		e, id := i%len(alone), strconv.Itoa(i)
		want[id] = alone[e].next(int64(i))
		err := s.Send(inSequence(id, int64(i), map[string]*inference.InferParameter{
			"sequence_id":    {ParameterChoice: &inference.InferParameter_Int64Param{Int64Param: int64(e + 1)}},
			"sequence_start": {ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: i < len(alone)}},
			"sequence_end":   {ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: i >= 300-len(alone)}},
		}))
		if err != nil {
			t.Fatal(err)
		}
	}
	_ = s.CloseSend()
	for range want {
		a, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		r := a.GetInferResponse()
		raw, y := r.GetRawOutputContents(), want[r.GetId()]
		if a.GetErrorMessage() != "" || len(raw) != 1 || intsOf(raw[0])[0] != y {
			t.Errorf("step %s: %v %s, want %d", r.GetId(), raw, a.GetErrorMessage(), y)
		}
	}
	if lives := store.Counts().Live; len(lives) > 0 {
		t.Errorf("left are %v", lives)
	}
}

// TestAStepThatIsGivenUp: the step behind one that is given up does not pass those before that.
func TestAStepThatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := recurrentHouse(t, 10)
		entered, release := make(chan struct{}, 3), make(chan struct{})
		h.Run = func(_ context.Context, call *catalog.Call) error {
			entered <- struct{}{}
			<-release
			runRecurrent(call)
			return nil
		}
		s, err := inference.NewGRPCInferenceServiceClient(h.Conn).ModelStreamInfer(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		send := func(x int64, timeout time.Duration) {
			t.Helper()
			err := s.Send(inSequence(strconv.FormatInt(x, 10), x, map[string]*inference.InferParameter{
				"sequence_id":    {ParameterChoice: &inference.InferParameter_StringParam{StringParam: "e"}},
				"sequence_start": {ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: x == 1}},
				"timeout":        {ParameterChoice: &inference.InferParameter_Int64Param{Int64Param: timeout.Microseconds()}},
			}))
			if err != nil {
				t.Fatal(err)
			}
		}
		recv := func() (id, fault string, y int64) {
			t.Helper()
			a, err := s.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if a.GetErrorMessage() == "" {
				y = intsOf(a.GetInferResponse().GetRawOutputContents()[0])[0]
			}
			return a.GetInferResponse().GetId(), a.GetErrorMessage(), y
		}
		send(1, time.Minute)
		<-entered
		send(2, time.Minute)
		send(3, time.Second)
		send(4, time.Minute)
		if id, fault, _ := recv(); id != "3" || fault == "" {
			t.Fatalf("%s: %q", id, fault)
		}
		synctest.Wait() // it waits
		close(release)
		alone := begun()
		want := map[string]int64{"1": alone.next(1), "2": alone.next(2), "4": alone.next(4)}
		for range want { // the steps are in order, and the answers need not be
			if id, fault, y := recv(); y != want[id] {
				t.Errorf("%s: %s %d, want %v", id, fault, y, want)
			}
		}
		synctest.Wait()
		if events := h.Events(); events[len(events)-1].Step.Waited < time.Second/2 {
			t.Errorf("the last one was told to have waited %v for its turn", events[len(events)-1].Step.Waited)
		}
	})
}

// TestSequencesOverHTTP: the parameters of episodes in JSON, and their errors.
func TestSequencesOverHTTP(t *testing.T) {
	h, _ := recurrentHouse(t, 1)
	ask := func(x int64, parameters string) string {
		const input = `{"name": %q, "datatype": "INT64", "shape": [1, 1], "data": [%d]}`
		body := fmt.Sprintf(`{"inputs": [`+input+", "+input+`], "parameters": {%s}}`, "x", x, "seen", x, parameters)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v2/models/gru/infer", strings.NewReader(body))
		w := httptest.NewRecorder()
		h.Web().ServeHTTP(w, r)
		return fmt.Sprint(w.Code, " ", w.Body)
	}
	alone := begun()
	first, second := strconv.FormatInt(alone.next(5), 10), strconv.FormatInt(alone.next(6), 10)
	const begins = `"sequence_id": 7, "sequence_start": true, "sequence_step": 1`
	steps := []predict.Step{
		{Number: 1}, {Number: 1, Repeated: true}, {Number: 4, Skipped: 2}, {Number: 3},
	}
	for i, c := range []struct {
		x          int64
		parameters string
		says       []string
	}{
		{5, begins, []string{"200", first, `{"slot":"prod","table":"`}},
		{5, begins, []string{"200", first, `"sequence_repeated":true`}},
		{6, `"sequence_id": 7, "sequence_step": 4`, []string{"200", second, `"sequence_skipped":2`}},
		{6, `"sequence_id": 7, "sequence_step": 3`, []string{"400", "step 3 of episode", "step 4 was answered"}},
		{6, `"sequence_id": 7, "sequence_step": -3`, []string{"400", `sequence_step`, "-3"}},
		{6, `"sequence_id": 8`, []string{"404", "no state for episode"}},
		{6, `"sequence_id": 8, "sequence_start": true`, []string{"429", "state.max_episodes"}},
		{6, `"sequence_start": true`, []string{"400", `inputs[\"h\"]: expected a tensor`, "keeps it in an episode"}},
	} {
		got := ask(c.x, c.parameters)
		for _, says := range c.says {
			if !strings.Contains(got, says) {
				t.Errorf("%s: %s\nwant %s", c.parameters, got, says)
			}
		}
		if i < len(steps) {
			steps[i].Episode = "7"
			if step := h.Events()[i].Step; step != steps[i] {
				t.Errorf("%s: %+v, want %+v", c.parameters, step, steps[i])
			}
		}
	}
}

// TestSequencesOverGRPC: the errors of episodes have their codes; a configuration and the metadata say what is kept.
func TestSequencesOverGRPC(t *testing.T) {
	h, _ := recurrentHouse(t, 1)
	client := inference.NewGRPCInferenceServiceClient(h.Conn)
	ask := func(id string, start bool, step uint64) error {
		_, err := client.ModelInfer(t.Context(), inSequence("", 1, map[string]*inference.InferParameter{
			"sequence_id":    {ParameterChoice: &inference.InferParameter_StringParam{StringParam: id}},
			"sequence_start": {ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: start}},
			"sequence_step":  {ParameterChoice: &inference.InferParameter_Uint64Param{Uint64Param: step}},
		}))
		return err
	}
	if err := ask("a", true, 2); err != nil {
		t.Fatal(err)
	}
	servertest.WantCode(t, ask("a", false, 1), codes.FailedPrecondition, "step 1 of episode")
	servertest.WantCode(t, ask("b", false, 0), codes.NotFound, "no state for episode")
	servertest.WantCode(t, ask("b", true, 0), codes.ResourceExhausted, "state.max_episodes")
	m, err := client.ModelMetadata(t.Context(), &inference.ModelMetadataRequest{Name: "gru"})
	if err != nil || len(m.GetInputs()) != 2 || len(m.GetOutputs()) != 2 {
		t.Errorf("%v, %v", m, err)
	}
	shown, err := client.ModelConfig(t.Context(), &inference.ModelConfigRequest{Name: "gru"})
	if err != nil {
		t.Fatal(err)
	}
	want := &inference.ModelConfig{}
	if err := prototext.Unmarshal([]byte(`
		input { name: "x" data_type: TYPE_INT64 dims: 1 }
		input { name: "seen" data_type: TYPE_INT64 dims: 2 }
		sequence_batching {
			max_sequence_idle_microseconds: 3600000000
			oldest { max_candidate_sequences: 1 }
			control_input { name: "first" control { data_type: TYPE_INT64 } }
			state { input_name: "h" output_name: "hn" data_type: TYPE_INT64 dims: 2 }
			state { input_name: "past" data_type: TYPE_INT64 dims: 3 }
			state { input_name: "seen" data_type: TYPE_INT64 dims: 2 }
		}`), want); err != nil {
		t.Fatal(err)
	}
	c := shown.GetConfig()
	got := &inference.ModelConfig{Input: c.GetInput(), SchedulingChoice: c.GetSchedulingChoice()}
	if prototext.Format(got) != prototext.Format(want) {
		t.Errorf("%v\nwant %v", got, want)
	}
}
