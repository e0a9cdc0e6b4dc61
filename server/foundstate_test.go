package server_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/weftserve/weft/proto/gen/inference"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/episode"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/server/shadow"
)

// offers are requests that shadows were shown.
type offers struct {
	server.Shadows

	mu  sync.Mutex
	all []shadow.Offer // guarded by mu
}

func (o *offers) Offer(one shadow.Offer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, one)
}

// foundHouse serves a model of x and h, whose state was found by names and shapes, for one episode. Version 2 is in the
// shadow of version 1.
func foundHouse(t *testing.T) (*servertest.House, *episode.Store, *offers) {
	t.Helper()
	store, shown := episode.NewStore(episode.Config{Memory: 1 << 20}), &offers{}
	h := servertest.New(t, server.Config{Episodes: store, Shadows: shown})
	m := &catalog.Model{Name: "gru", Traffic: &catalog.Traffic{
		Split: []catalog.Slot{{Name: "prod", Version: 1, Weight: 100}}, Shadow: []catalog.Shadow{{Version: 2, Sample: 1}},
	}}
	for n := range int64(2) {
		v := recurrent(n + 1)
		v.Signature.Inputs = v.Signature.Inputs[:2]
		s := v.EpisodeState
		s.Found, s.Inputs, s.Controls, s.MaxEpisodes = true, s.Inputs[:1], nil, 1
		m.Versions = append(m.Versions, v)
	}
	h.Current.Store(servertest.SnapshotOf(1, m))
	h.Run = func(_ context.Context, call *catalog.Call) error {
		x, before := intsOf(call.Inputs[0].Clone().Data), intsOf(call.Inputs[1].Clone().Data)
		var y, hn []int64
		for r := range call.Rows {
			one, next := step(x[r], [2]int64(before[2*r:]), make([]int64, 3), make([]int64, 3), 0)
			y, hn = append(y, one), append(hn, next[:]...)
		}
		n := int64(call.Rows)
		all := []tensor.Tensor{ints(tensor.Shape{n, 1}, y...), ints(tensor.Shape{n, 2}, hn...)}
		if call.Wanted == nil {
			call.Results = all
		}
		for _, o := range call.Wanted {
			call.Results = append(call.Results, all[o])
		}
		return nil
	}
	return h, store, shown
}

// only is a request that brings nothing but x.
func only(episode string, x ...int64) *weftv1.PredictRequest {
	q := observe(episode, 0, x...)
	delete(q.GetInputs(), "seen")
	return q
}

// TestCallersThatBringTheirState: where nobody has asked the server to keep state, callers that bring it are answered
// as if it could not, however they name their episodes, and more of them than it would keep.
func TestCallersThatBringTheirState(t *testing.T) {
	h, store, shown := foundHouse(t)
	client := inference.NewGRPCInferenceServiceClient(h.Conn)
	state := &weftv1.Tensor{
		Dtype: weftv1.DataType_DATA_TYPE_INT64, Shape: []int64{1, 2}, Raw: ints(nil, 7, 8).Data,
	}
	for i := range 3 {
		q := only("robot "+strconv.Itoa(i), 5)
		q.Inputs["h"] = state
		a, err := h.Predictions.Predict(t.Context(), q)
		if err != nil || len(a.GetOutputs()) != 2 {
			t.Errorf("weft.v1: %v, %v", a, err)
		}
		old := inSequence("", 5, map[string]*inference.InferParameter{
			"sequence_id":    {ParameterChoice: &inference.InferParameter_Int64Param{Int64Param: int64(i + 1)}},
			"sequence_start": {ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: true}},
		})
		old.Inputs = append(old.Inputs[:1], &inference.ModelInferRequest_InferInputTensor{
			Name: "h", Datatype: "INT64", Shape: []int64{1, 2},
		})
		old.RawInputContents = append(old.RawInputContents[:1], state.GetRaw())
		b, err := client.ModelInfer(t.Context(), old)
		if err != nil || len(b.GetRawOutputContents()) != 2 {
			t.Errorf("the Open Inference Protocol: %v, %v", b, err)
		}
	}
	empty := only("robot 4")
	empty.Inputs["h"] = &weftv1.Tensor{Dtype: weftv1.DataType_DATA_TYPE_INT64, Shape: []int64{0, 2}}
	if _, err := h.Predictions.Predict(t.Context(), empty); err != nil {
		t.Errorf("without rows: %v", err)
	}
	if c := store.Counts(); len(c.Live) > 0 || c.Bytes > 0 {
		t.Errorf("kept are %+v", c)
	}
	if len(shown.all) != 7 || slices.ContainsFunc(shown.all, func(o shadow.Offer) bool { return len(o.Shadows) != 1 }) {
		t.Errorf("the shadow was offered %d requests: %+v", len(shown.all), shown.all)
	}
	m, err := client.ModelMetadata(t.Context(), &inference.ModelMetadataRequest{Name: "gru"})
	if err != nil || len(m.GetInputs()) != 2 {
		t.Errorf("metadata: %v, %v", m, err)
	}
	c, err := client.ModelConfig(t.Context(), &inference.ModelConfigRequest{Name: "gru"})
	if err != nil || len(c.GetConfig().GetInput()) != 2 || c.GetConfig().GetSequenceBatching() != nil {
		t.Errorf("configuration: %v, %v", c, err)
	}

	begin := only("robot 1", 5)
	begin.BeginEpisode = true
	if a, err := h.Predictions.Predict(t.Context(), begin); err != nil || len(a.GetOutputs()) != 1 {
		t.Errorf("an episode: %v, %v", a, err)
	}
	to := shown.all[7].Shadows
	if n := store.Counts().Live["gru"]; n != 1 || len(to) != 1 || to[0].Step == nil {
		t.Errorf("%d episodes; as a step of one the shadow was shown %+v", n, to)
	}
}

// TestRequestsThatBringTheirStateRunAtOnce: on a stream they wait for none before them, unless one of those begins the
// episode.
func TestRequestsThatBringTheirStateRunAtOnce(t *testing.T) {
	for begins, want := range map[bool]int{false: 2, true: 1} {
		synctest.Test(t, func(t *testing.T) {
			h, _, _ := foundHouse(t)
			run, release := h.Run, make(chan struct{})
			entered := make(chan struct{}, 2)
			h.Run = func(ctx context.Context, call *catalog.Call) error {
				entered <- struct{}{}
				<-release
				return run(ctx, call)
			}
			s, err := h.Predictions.PredictStream(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for i := range 2 {
				q := only("e", 5)
				q.RequestId, q.BeginEpisode = strconv.Itoa(i), begins && i == 0
				q.Inputs["h"] = &weftv1.Tensor{
					Dtype: weftv1.DataType_DATA_TYPE_INT64, Shape: []int64{1, 2}, Raw: ints(nil, 7, 8).Data,
				}
				if err := s.Send(&weftv1.PredictStreamRequest{Request: q}); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			if len(entered) != want {
				t.Errorf("begins %v: %d run, want %d", begins, len(entered), want)
			}
			close(release)
			for range 2 {
				if a, err := s.Recv(); err != nil || len(a.GetResponse().GetOutputs()) != 2 {
					t.Errorf("%v, %v", a, err)
				}
			}
		})
	}
}
