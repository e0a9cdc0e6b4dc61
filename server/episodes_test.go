package server_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/record"
	"github.com/weftserve/weft/internal/replay"
	"github.com/weftserve/weft/proto/gen/inference"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/episode"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/sharedsched"
)

// recurrent is a model with x, the state h, a window of the last three x, first, which is 1 in the first step, and a
// window of two values of itself.
func recurrent(number int64) *catalog.Version {
	spec := func(name string, shape ...int64) tensor.Spec {
		return tensor.Spec{Name: name, DType: tensor.Int64, Shape: append(tensor.Shape{tensor.Unknown}, shape...)}
	}
	return &catalog.Version{
		Model: "gru", Number: number, State: catalog.Ready, Device: "cpu", Provider: "cpu",
		Digest: strconv.FormatInt(number, 10),
		Signature: &tensor.Signature{
			Inputs:  []tensor.Spec{spec("x", 1), spec("h", 2), spec("past", 3), spec("first"), spec("seen", 2)},
			Outputs: []tensor.Spec{spec("y", 1), spec("hn", 2)},
		},
		Batching: catalog.Batching{Batched: true, MaxBatchSize: 64, MaxRequestRows: 100, MaxQueue: 1000},
		EpisodeState: &catalog.EpisodeState{
			Inputs: []catalog.StateInput{
				{Input: 1, Output: 1, Initial: ints(tensor.Shape{1, 2}, 7, 8)},
				{Input: 2, Output: -1, Window: 3, Of: 0, Initial: ints(tensor.Shape{1, 3}, 0, 0, 0)},
				{Input: 4, Output: -1, Window: 2, Of: 4, Initial: ints(tensor.Shape{1, 2}, 5, 6)},
			},
			Controls: []catalog.StateControl{{Input: 3}}, MaxEpisodes: 1000, Idle: time.Hour,
		},
	}
}

func ints(shape tensor.Shape, values ...int64) tensor.Tensor {
	t := tensor.Tensor{DType: tensor.Int64, Shape: shape}
	for _, v := range values {
		t.Data = binary.LittleEndian.AppendUint64(t.Data, uint64(v))
	}
	return t
}

func intsOf(data []byte) (all []int64) {
	for ; len(data) > 0; data = data[8:] {
		all = append(all, int64(binary.LittleEndian.Uint64(data)))
	}
	return all
}

// memory is what the model keeps, of one row.
type memory struct {
	h    [2]int64
	past [3]int64
	seen [2]int64
	done bool // a step
}

func begun() memory { return memory{h: [2]int64{7, 8}, seen: [2]int64{5, 6}} }

// step is the model of one row; past and seen have x already.
func step(x int64, h [2]int64, past, seen []int64, first int64) (y int64, hn [2]int64) {
	hn = [2]int64{h[0]*31 + x, h[1]*37 - x + first*1000}
	return hn[0] ^ hn[1] + past[0]*3 + past[1]*5 + past[2]*7 + seen[0]*9 - seen[1]*11, hn
}

// next does a step by itself.
func (m *memory) next(x int64) (y int64) {
	m.past, m.seen = [3]int64{m.past[1], m.past[2], x}, [2]int64{m.seen[1], x}
	first := int64(1)
	if m.done {
		first = 0
	}
	y, m.h = step(x, m.h, m.past[:], m.seen[:], first)
	m.done = true
	return y
}

// runRecurrent is Models.Predict.
func runRecurrent(call *catalog.Call) {
	var in [5][]int64
	for i := range in {
		in[i] = intsOf(call.Inputs[i].Clone().Data)
	}
	var y, hn []int64
	for r := range call.Rows {
		one, next := step(in[0][r], [2]int64(in[1][2*r:]), in[2][3*r:3*r+3], in[4][2*r:2*r+2], in[3][r])
		y, hn = append(y, one), append(hn, next[:]...)
	}
	all := []tensor.Tensor{ints(tensor.Shape{int64(call.Rows), 1}, y...), ints(tensor.Shape{int64(call.Rows), 2}, hn...)}
	for _, o := range call.Wanted {
		call.Results = append(call.Results, all[o])
	}
}

func observe(episode string, n uint64, x ...int64) *weftv1.PredictRequest {
	values := &weftv1.Tensor{
		Dtype: weftv1.DataType_DATA_TYPE_INT64, Shape: []int64{int64(len(x)), 1}, Raw: ints(nil, x...).Data,
	}
	return &weftv1.PredictRequest{
		Model: &weftv1.ModelSpec{Name: "gru"}, EpisodeId: episode, Step: n,
		Inputs:         map[string]*weftv1.Tensor{"x": values, "seen": values},
		OutputEncoding: weftv1.OutputEncoding_OUTPUT_ENCODING_RAW,
	}
}

// TestEpisodes has many episodes step at once, with steps that fail, are given up, doubled, sent again, left out and
// out of date: each answer is that of the model alone, and each step counts once.
func TestEpisodes(t *testing.T) {
	h := servertest.New(t, server.Config{Episodes: episode.NewStore(episode.Config{Memory: 1 << 20})})
	h.Current.Store(servertest.SnapshotOf(1, &catalog.Model{Name: "gru", Versions: []*catalog.Version{recurrent(1)}}))
	h.Run = troubled()
	var all sync.WaitGroup
	for e := range 40 {
		all.Go(func() { episodeOf(t, h, fmt.Sprintf("robot %d", e), rand.New(rand.NewPCG(uint64(e), 41))) })
	}
	all.Wait()
}

// troubled runs the model, and refuses some calls.
func troubled() func(context.Context, *catalog.Call) error {
	var mu sync.Mutex
	trouble := rand.New(rand.NewPCG(1, 41))
	return func(_ context.Context, call *catalog.Call) error {
		mu.Lock()
		luck := trouble.IntN(100)
		mu.Unlock()
		if luck < 90 {
			runRecurrent(call)
		}
		if luck >= 85 { // some of these have run
			return &sharedsched.Refusal{Reason: sharedsched.RefusedQueueFull}
		}
		return nil
	}
}

// episodeOf does 60 steps of an episode, and tells each before.
func episodeOf(
	t *testing.T, h *servertest.House, name string, rng *rand.Rand, tells ...func(begins bool, x int64),
) {
	var alone memory
	var n, first uint64
	again := []codes.Code{codes.ResourceExhausted, codes.Canceled, codes.DeadlineExceeded}
	predict := func(q *weftv1.PredictRequest) (int64, error) {
		ctx := t.Context()
		if rng.IntN(10) == 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(300))*time.Microsecond)
			defer cancel()
		}
		a, err := h.Predictions.Predict(ctx, q)
		if err != nil {
			return 0, err
		}
		if len(a.GetOutputs()) != 1 {
			t.Errorf("%s: %d outputs came, want the state to stay", name, len(a.GetOutputs()))
		}
		return intsOf(a.GetOutputs()["y"].GetRaw())[0], nil
	}
	for i := range 60 {
		begins := i == 0 || rng.IntN(25) == 0
		x := rng.Int64N(1 << 40)
		next := n + 1
		if rng.IntN(8) == 0 {
			next += 2
		}
		q := observe(name, next, x)
		q.BeginEpisode = begins
		if begins {
			alone, first = begun(), next
		}
		want := alone.next(x)
		for _, tell := range tells {
			tell(begins, x)
		}
		for tries := 0; ; tries++ {
			got, err := predict(q)
			if rng.IntN(6) == 0 { // a hedge, or a client that did not get the answer
				second, errSecond := predict(q)
				if err == nil && errSecond == nil && got != second {
					t.Errorf("%s step %d: %d, and once more %d", name, next, got, second)
				}
				got, err = second, errSecond
			}
			switch c := status.Code(err); {
			case err == nil:
			case tries < 200 && slices.Contains(again, c):
				continue
			default:
				t.Errorf("%s step %d, tried %d times: %v", name, next, tries, err)
				return
			}
			if got != want {
				t.Errorf("%s step %d: %d, alone %d", name, next, got, want)
			}
			break
		}
		if n = next; n > 3 && rng.IntN(8) == 0 {
			late := observe(name, n-2, 1)
			if n > first && rng.IntN(2) == 0 { // a copy of the first request
				late.Step, late.BeginEpisode = first, true
			}
			_, err := h.Predictions.Predict(t.Context(), late)
			servertest.WantCode(t, err, codes.FailedPrecondition, "which cannot be undone")
		}
	}
}

// TestEpisodeOnAStream: requests that come one after the other on a stream are run in this order, whatever their
// goroutines do.
func TestEpisodeOnAStream(t *testing.T) {
	h := servertest.New(t, server.Config{Episodes: episode.NewStore(episode.Config{Memory: 1 << 20})})
	h.Current.Store(servertest.SnapshotOf(1, &catalog.Model{Name: "gru", Versions: []*catalog.Version{recurrent(1)}}))
	h.Run = func(_ context.Context, call *catalog.Call) error { runRecurrent(call); return nil }
	s, err := h.Predictions.PredictStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	alone := begun()
	want := map[string]int64{}
	for i := range 200 {
		q := observe("e", uint64(i+1), int64(i))
		q.RequestId, q.BeginEpisode = strconv.Itoa(i), i == 0
		want[q.GetRequestId()] = alone.next(int64(i))
		if err := s.Send(&weftv1.PredictStreamRequest{Request: q}); err != nil {
			t.Fatal(err)
		}
	}
	_ = s.CloseSend()
	for range want {
		a, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if got := intsOf(a.GetResponse().GetOutputs()["y"].GetRaw()); len(got) != 1 || got[0] != want[a.GetRequestId()] {
			t.Errorf("step %s: %v, %v", a.GetRequestId(), got, a.GetError())
		}
	}
}

// TestRetryAfterASwap: the answer that is kept has its outputs in the order of the version that gave it.
func TestRetryAfterASwap(t *testing.T) {
	h, _ := recurrentHouse(t, 10)
	q := observe("e", 1, 5)
	q.BeginEpisode = true
	first, err := h.Predictions.Predict(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	next := recurrent(2)
	slices.Reverse(next.Signature.Outputs)
	next.EpisodeState.Inputs[0].Output = 0
	h.Current.Store(servertest.SnapshotOf(2, &catalog.Model{Name: "gru", Versions: []*catalog.Version{next}}))
	again, err := h.Predictions.Predict(t.Context(), q)
	if err != nil || !bytes.Equal(first.GetOutputs()["y"].GetRaw(), again.GetOutputs()["y"].GetRaw()) {
		t.Errorf("%v, %v; want %v", again, err, first)
	}
}

// TestTwoModelsOnAStream: the steps of one wait for no request to another that has the same name.
func TestTwoModelsOnAStream(t *testing.T) {
	h, _ := recurrentHouse(t, 10)
	other := recurrent(1)
	other.Model, other.EpisodeState = "slow", nil
	other.Signature.Inputs = other.Signature.Inputs[:1]
	h.Current.Store(servertest.SnapshotOf(2, &catalog.Model{Name: "gru", Versions: []*catalog.Version{recurrent(1)}},
		&catalog.Model{Name: "slow", Versions: []*catalog.Version{other}}))
	h.Run = func(ctx context.Context, call *catalog.Call) error {
		if call.Version.Model == "slow" {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		runRecurrent(call)
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := h.Predictions.PredictStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	slow, quick := observe("e", 1, 5), observe("e", 1, 5)
	delete(slow.GetInputs(), "seen")
	slow.Model.Name, slow.RequestId, quick.RequestId, quick.BeginEpisode = "slow", "slow", "quick", true
	for _, q := range []*weftv1.PredictRequest{slow, quick} {
		if err := s.Send(&weftv1.PredictStreamRequest{Request: q}); err != nil {
			t.Fatal(err)
		}
	}
	if a, err := s.Recv(); err != nil || a.GetRequestId() != "quick" {
		t.Errorf("first comes %v, %v", a, err)
	}
}

// TestTheFirstStepStays: later steps supersede others, and not the one that begins the episode.
func TestTheFirstStepStays(t *testing.T) {
	h, _ := recurrentHouse(t, 10)
	release := make(chan struct{})
	h.Run = func(ctx context.Context, call *catalog.Call) error {
		select {
		case <-release:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		runRecurrent(call)
		return nil
	}
	s, err := h.Predictions.PredictStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(4) {
		q := observe("e", i+1, 5)
		q.RequestId, q.BeginEpisode = strconv.FormatUint(i+1, 10), i == 0
		if err := s.Send(&weftv1.PredictStreamRequest{Request: q, Supersede: i > 0}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 4 {
		a, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		superseded := a.GetRequestId() == "2" || a.GetRequestId() == "3"
		if want := map[bool]codes.Code{true: codes.Aborted}[superseded]; codes.Code(a.GetError().GetCode()) != want {
			t.Errorf("step %s: %v", a.GetRequestId(), a.GetError())
		}
		if i == 1 {
			close(release) // the superseded ones are answered at once
		}
	}
}

// TestEpisodeFromACheckpoint: a client that keeps the state outputs goes on elsewhere, with several rows.
func TestEpisodeFromACheckpoint(t *testing.T) {
	one, other := servertest.New(t, server.Config{Episodes: episode.NewStore(episode.Config{Memory: 1 << 20})}),
		servertest.New(t, server.Config{Episodes: episode.NewStore(episode.Config{Memory: 1 << 20})})
	for _, h := range []*servertest.House{one, other} {
		h.Current.Store(servertest.SnapshotOf(1, &catalog.Model{Name: "gru", Versions: []*catalog.Version{recurrent(1)}}))
		h.Run = func(_ context.Context, call *catalog.Call) error { runRecurrent(call); return nil }
	}
	about, err := one.Catalog.GetModel(t.Context(), &weftv1.GetModelRequest{Name: "gru"})
	if err != nil {
		t.Fatal(err)
	}
	kept := about.GetModel().GetVersions()[0].GetKeptInputs()
	if got := fmt.Sprint(kept); len(kept) != 3 || kept[0].GetOutput() != "hn" || kept[0].GetRowBytes() != 16 ||
		kept[1].GetInput() != "past" || kept[1].GetWindow() != 3 {
		t.Errorf("GetModel says that it keeps %s", got)
	}
	a, b := begun(), begun()
	q := observe("pair", 1, 5, 6)
	q.BeginEpisode, q.Outputs = true, []string{"hn", "y"}
	answer, err := one.Predictions.Predict(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if got := intsOf(answer.GetOutputs()["y"].GetRaw()); !slices.Equal(got, []int64{a.next(5), b.next(6)}) {
		t.Errorf("y is %v", got)
	}
	about, err = one.Catalog.GetModel(t.Context(), &weftv1.GetModelRequest{Name: "gru"})
	if m := about.GetModel(); err != nil || m.GetLiveEpisodes() != 1 || m.GetStateBytes() < 80 {
		t.Errorf("GetModel says %v, %v", m, err)
	}
	if _, err := other.Predictions.Predict(t.Context(), observe("pair", 2, 7, 8)); status.Code(err) != codes.NotFound {
		t.Errorf("where the episode is not known: %v", err)
	}
	q = observe("pair", 2, 7, 8)
	q.BeginEpisode, q.Inputs["h"] = true, answer.GetOutputs()["hn"]
	answer, err = other.Predictions.Predict(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	// The windows begin anew. The mark of the first step does not: the model would forget the state that was sent.
	a.past, b.past, a.seen, b.seen = [3]int64{}, [3]int64{}, begun().seen, begun().seen
	if got := intsOf(answer.GetOutputs()["y"].GetRaw()); !slices.Equal(got, []int64{a.next(7), b.next(8)}) {
		t.Errorf("elsewhere y is %v", got)
	}
	if _, err := other.Predictions.Predict(t.Context(), observe("pair", 3, 9)); status.Code(err) != codes.InvalidArgument {
		t.Errorf("with another number of rows: %v", err)
	}
}

// reader is a recorder that reads what it is given.
type reader struct{}

func (reader) Keep(r *predict.Recorded) {
	for range r.Inputs() {
	}
}

// TestOddSteps: whatever is wrong with a step leaves the episode as it was.
func TestOddSteps(t *testing.T) {
	v := recurrent(1)
	v.Signature.Inputs = append(v.Signature.Inputs, tensor.Spec{
		Name: "u", DType: tensor.Int64, Shape: tensor.Shape{tensor.Unknown, 1},
	})
	v.EpisodeState.Inputs[1].Of = 5
	v.Batching.MaxRequestRows = 10
	store := episode.NewStore(episode.Config{Memory: 1 << 20})
	h := servertest.New(t, server.Config{Episodes: store, Recorder: reader{}, MaxMessageBytes: 4096})
	h.Current.Store(servertest.SnapshotOf(1, &catalog.Model{Name: "gru", Versions: []*catalog.Version{v}}))
	large, odd := false, false
	h.Run = func(_ context.Context, call *catalog.Call) error {
		runRecurrent(call)
		if odd {
			call.Results[1] = ints(tensor.Shape{1, 3}, 1, 2, 3)
		}
		if large {
			call.Results[0] = ints(tensor.Shape{1000, 1}, make([]int64, 1000)...)
		}
		return nil
	}
	step := func(n uint64, x int64, change func(*weftv1.PredictRequest)) (int64, error) {
		q := observe("e", n, x)
		q.Inputs["u"] = q.GetInputs()["x"]
		if change != nil {
			change(q)
		}
		a, err := h.Predictions.Predict(t.Context(), q)
		if err != nil {
			return 0, err
		}
		return intsOf(a.GetOutputs()["y"].GetRaw())[0], nil
	}
	alone := begun()
	good := func(n uint64, x int64, change func(*weftv1.PredictRequest)) {
		t.Helper()
		if got, err := step(n, x, change); err != nil || got != alone.next(x) {
			t.Errorf("step %d: %d, %v", n, got, err)
		}
	}
	bad := func(n uint64, code codes.Code, message string, change func(*weftv1.PredictRequest)) {
		t.Helper()
		_, err := step(n, 9, change)
		servertest.WantCode(t, err, code, message)
	}
	rows := func(n int64) func(*weftv1.PredictRequest) {
		return func(q *weftv1.PredictRequest) {
			q.Inputs["u"] = observe("", 0, make([]int64, n)...).GetInputs()["x"]
			q.BeginEpisode = q.GetStep() == 1
		}
	}
	bad(1, codes.InvalidArgument, `inputs["u"].shape`, rows(5))
	good(1, 4, func(q *weftv1.PredictRequest) { q.BeginEpisode = true })
	bad(2, codes.InvalidArgument, `inputs["u"].shape`, rows(5))
	bad(2, codes.InvalidArgument, "at most 10 rows", func(q *weftv1.PredictRequest) {
		q.Inputs = observe("", 0, make([]int64, 11)...).GetInputs()
		q.Inputs["u"] = q.GetInputs()["x"]
	})
	bad(2, codes.InvalidArgument, "a row at least", func(q *weftv1.PredictRequest) {
		q.Inputs = observe("", 0).GetInputs()
		q.Inputs["u"] = q.GetInputs()["x"]
	})
	bad(2, codes.InvalidArgument, `inputs["seen"].shape: expected 1 rows in dimension 0`, func(q *weftv1.PredictRequest) {
		q.Inputs["seen"] = observe("", 0, 1, 2).GetInputs()["x"]
	})
	bad(2, codes.InvalidArgument, "expected [?,1], the newest value, or [?,2], all", func(q *weftv1.PredictRequest) {
		q.Inputs["seen"] = &weftv1.Tensor{
			Dtype: weftv1.DataType_DATA_TYPE_INT64, Shape: []int64{1, 3}, Raw: make([]byte, 24),
		}
	})
	bad(2, codes.InvalidArgument, "expected [?,1], the newest value, or [?,2], all", func(q *weftv1.PredictRequest) {
		q.Inputs["seen"] = &weftv1.Tensor{
			Dtype: weftv1.DataType_DATA_TYPE_INT64, Shape: []int64{1}, Raw: make([]byte, 8),
		}
	})
	bad(2, codes.InvalidArgument, `inputs["seen"]`, func(q *weftv1.PredictRequest) { delete(q.GetInputs(), "seen") })
	bad(0, codes.InvalidArgument, "step: expected a number", nil)
	large = true
	bad(2, codes.ResourceExhausted, "the answer takes 8054 bytes", nil)
	large, odd = false, true
	bad(2, codes.Internal, `output "hn": expected int64 [?,2] of 1 rows, got int64 [1,3]`, nil)
	odd = false
	good(2, 5, nil)
	bad(2, codes.InvalidArgument, "outputs: expected the same", func(q *weftv1.PredictRequest) {
		q.Outputs = []string{"hn"}
	})
	alone.seen = [2]int64{3, 4} // a whole window takes the place of what there is
	good(3, 6, func(q *weftv1.PredictRequest) {
		q.Inputs["seen"] = &weftv1.Tensor{
			Dtype: weftv1.DataType_DATA_TYPE_INT64, Shape: []int64{1, 2}, Raw: ints(nil, 4, 6).Data,
		}
	})

	// Another version takes its place. The answer that is kept is the first one's.
	next := recurrent(2)
	next.Signature.Inputs = append(next.Signature.Inputs, v.Signature.Inputs[5])
	next.Signature.Optional = []tensor.Spec{{Name: "goal", DType: tensor.Int64, Shape: tensor.Shape{1}}}
	h.Current.Store(servertest.SnapshotOf(2, &catalog.Model{Name: "gru", Versions: []*catalog.Version{v, next}}))
	other := func(q *weftv1.PredictRequest) {
		q.Model.VersionChoice = &weftv1.ModelSpec_Version{Version: 2}
		q.Inputs["goal"] = &weftv1.Tensor{
			Dtype: weftv1.DataType_DATA_TYPE_INT64, Shape: []int64{1}, Raw: ints(nil, 1).Data,
		}
	}
	if _, err := step(3, 6, other); err != nil {
		t.Errorf("a retry that another version would answer: %v", err)
	}
	bad(4, codes.NotFound, "version 1 answered it", other)
	good(4, 7, nil)
	good(5, 8, func(q *weftv1.PredictRequest) {
		q.Model.VersionChoice, q.EndOfEpisode = &weftv1.ModelSpec_Version{Version: 1}, true
	})
	if c := store.Counts(); len(c.Live) != 0 {
		t.Errorf("in the end there are %+v", c)
	}
	alone = begun()
	good(1, 4, func(q *weftv1.PredictRequest) { other(q); q.BeginEpisode = true })
	_, err := h.Predictions.ReportOutcome(t.Context(), &weftv1.ReportOutcomeRequest{
		Model: &weftv1.ModelSpec{Name: "gru"}, EpisodeId: "e", Reward: new(1.0),
	})
	if err != nil {
		t.Fatal(err)
	}
	bad(2, codes.NotFound, "it was ended", other)

	alone = begun()
	good(3, 4, func(q *weftv1.PredictRequest) { // which the router does not remember
		q.Model.VersionChoice, q.BeginEpisode = &weftv1.ModelSpec_Version{Version: 1}, true
	})
	good(4, 5, nil) // it stays where its state is
}

// forgetful is a recorder that misses the beginning of an episode, and a step of another.
type forgetful struct{ predict.Recorder }

func (f forgetful) Keep(r *predict.Recorded) {
	if q := r.Request; (q.Episode != "old" || q.Step != 1) && (q.Episode != "torn" || q.Step != 3) {
		f.Recorder.Keep(r)
	}
}

// TestReplayOfEpisodes records episodes with all their troubles, and replays them as fast as it can: the answers are
// the same. What has no beginning, or a gap, is not sent. Nobody else's episode is touched, and none of the replay is
// left.
func TestReplayOfEpisodes(t *testing.T) {
	dir := t.TempDir()
	w, err := record.New(record.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	gru := func(revision uint64, label int64) *catalog.Snapshot {
		return servertest.SnapshotOf(revision, &catalog.Model{
			Name: "gru", Versions: []*catalog.Version{recurrent(1), recurrent(2)}, Labels: map[string]int64{"new": label},
		})
	}
	h := servertest.New(t, server.Config{
		Episodes: episode.NewStore(episode.Config{Memory: 1 << 20}), Recorder: forgetful{w},
	})
	h.Current.Store(gru(1, 2))
	h.Run = troubled()
	var all sync.WaitGroup
	for e := range 20 {
		all.Go(func() { episodeOf(t, h, fmt.Sprintf("robot %d", e), rand.New(rand.NewPCG(uint64(e), 43))) })
	}
	all.Wait()
	h.Run = func(_ context.Context, call *catalog.Call) error { runRecurrent(call); return nil }
	for n := range uint64(5) {
		for _, name := range []string{"old", "torn", "whole", "whole"} { // the latter's steps come twice
			q := observe(name, n+1, int64(n))
			q.BeginEpisode, q.EndOfEpisode = n == 0, n == 4
			if _, err := h.Predictions.Predict(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The server decides which of these comes first.
	for n := range int64(200) {
		q := observe("unnumbered", 0, n)
		q.BeginEpisode = n == 0
		do := func() {
			if _, err := h.Predictions.Predict(t.Context(), q); err != nil {
				t.Error(err)
			}
		}
		if n == 0 {
			do()
		} else {
			all.Go(do)
		}
	}
	all.Wait()
	text := func(v string) *inference.InferParameter {
		return &inference.InferParameter{ParameterChoice: &inference.InferParameter_StringParam{StringParam: v}}
	}
	number := func(v int64) *inference.InferParameter {
		return &inference.InferParameter{ParameterChoice: &inference.InferParameter_Int64Param{Int64Param: v}}
	}
	truth := func(v bool) *inference.InferParameter {
		return &inference.InferParameter{ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: v}}
	}
	for _, n := range []int64{1, 2, 2, 3} {
		if _, err := inference.NewGRPCInferenceServiceClient(h.Conn).ModelInfer(t.Context(), &inference.ModelInferRequest{
			ModelName: "gru", RawInputContents: [][]byte{ints(nil, n).Data, ints(nil, n).Data},
			Inputs: []*inference.ModelInferRequest_InferInputTensor{
				{Name: "x", Datatype: "INT64", Shape: []int64{1, 1}},
				{Name: "seen", Datatype: "INT64", Shape: []int64{1, 1}},
			},
			Parameters: map[string]*inference.InferParameter{
				"sequence_id": text("inferred"), "sequence_step": number(n),
				"sequence_start": truth(n == 1), "sequence_end": truth(n == 3),
			},
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	steps := checkRecorded(t, dir)
	store := episode.NewStore(episode.Config{Memory: 1 << 20})
	other := servertest.New(t, server.Config{Episodes: store})
	other.Current.Store(gru(1, 2))
	var ran atomic.Int64
	other.Run = func(_ context.Context, call *catalog.Call) error {
		if ran.Add(1) == 500 {
			other.Current.Store(gru(2, 1)) // episodes stay with version 2
		}
		for range rand.IntN(10) {
			runtime.Gosched()
		}
		runRecurrent(call)
		return nil
	}
	living, alone := observe("robot 0", 1, 5), begun()
	living.BeginEpisode = true
	if _, err := other.Predictions.Predict(t.Context(), living); err != nil {
		t.Fatal(err)
	}
	alone.next(5)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	all.Go(func() { _ = other.GRPC.Serve(listener) })
	defer func() { other.GRPC.Stop(); all.Wait() }()
	var out, complaints strings.Builder
	o := replay.Options{
		Files: []string{dir}, Target: listener.Addr().String(), Label: "new", Concurrency: 32, MinAgreement: 1,
		MinRequests: 100, MaxErrorRate: 0.01, MaxLatencyRatio: 1.5, MaxFailures: 0.01, MaxUncompared: 1,
		Timeout: config.Duration(time.Minute), // the recorded ones are short
	}
	err = replay.Run(t.Context(), &o, &out, &complaints)
	const unsent = 4 + 2 // of old, and of torn after the step that is missing
	for _, want := range []string{
		fmt.Sprintf("%d answers compared, %[1]d agree", steps-unsent),
		"4 requests belong to episodes that began before the recording, and were not sent",
		"2 requests follow a step of their episode that is missing or failed now, and were not sent",
		"requests were retries of a step, and were not sent", "requests failed when they were recorded, and were not sent",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if live := store.Counts().Live["gru"]; err != nil || live != 1 {
		t.Errorf("%v, %d episodes stay, want one\n%s\n%s", err, live, &out, &complaints)
	}
	a, err := other.Predictions.Predict(t.Context(), observe("robot 0", 2, 6))
	if err != nil || intsOf(a.GetOutputs()["y"].GetRaw())[0] != alone.next(6) {
		t.Errorf("the episode of somebody else: %v, %v", a, err)
	}
}

// checkRecorded wants recorded requests to be what their callers sent, and returns how many steps were answered.
func checkRecorded(t *testing.T, dir string) (steps int) {
	t.Helper()
	r, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	begun := map[string]bool{}
	for e, err := range r.Entries() {
		if err != nil {
			t.Fatal(err)
		}
		q, x := e.Request, e.Response.GetExecution()
		if in := q.GetInputs(); len(in) != 2 || in["x"] == nil || len(in["seen"].GetRaw()) != 8 {
			t.Errorf("a request of %s has the inputs %v", e.Episode, q.GetInputs())
		}
		if e.Response == nil {
			continue
		}
		if q.GetBeginEpisode() {
			begun[e.Episode] = true
		}
		if n := q.GetStep(); e.Episode == "inferred" && ((n == 1) != q.GetBeginEpisode() || (n == 3) != q.GetEndOfEpisode()) {
			t.Errorf("of the Open Inference Protocol: %v", q)
		}
		if (e.Steps == 0) != x.GetRepeatedStep() || e.State == 0 {
			t.Errorf("step %d of %s is number %d of %d; repeated: %v", q.GetStep(), e.Episode, e.Steps, e.State, x)
		}
		if e.Steps > 0 {
			steps++
		}
	}
	if len(begun) < 23 {
		t.Errorf("the beginnings of %v were recorded", begun)
	}
	return steps
}
