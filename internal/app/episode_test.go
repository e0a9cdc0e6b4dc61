package app

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/proto/gen/inference"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// recurrent is a policy that takes x and a state, and gives y: two numbers by the state h, the number of the episode
// that its first step brought as x[0], and how many steps there were.
type recurrent struct{ w, b, v []float32 }

const (
	observations, memorized = 4, 16
	counters                = 600 // as many as make up a state whose memory is used again
)

func recurrentOf(version int64) *recurrent {
	rng := rand.New(rand.NewPCG(4, uint64(version)))
	random := func(n int, scale float64) []float32 {
		all := make([]float32, n)
		for i := range all {
			all[i] = float32(scale * rng.NormFloat64())
		}
		return all
	}
	return &recurrent{random((observations+memorized)*memorized, 0.3), random(memorized, 0.1), random(memorized*2, 0.5)}
}

func (r *recurrent) onnx() []byte {
	g := onnxgraph.New("recurrent").Input("x", onnxgraph.Float, "batch", observations)
	g.Input("first", onnxgraph.Float, "batch", 1).Input("h", onnxgraph.Float, "batch", memorized)
	g.Input("id", onnxgraph.Float, "batch", 1).Input("count", onnxgraph.Float, "batch", counters)
	g.InitFloats("w", []int64{observations + memorized, memorized}, r.w...).InitFloats("b", []int64{memorized}, r.b...)
	g.InitFloats("v", []int64{memorized, 2}, r.v...).InitFloats("one", []int64{1, 1}, 1)
	g.InitFloats("pick", []int64{observations, 1}, 1, 0, 0, 0)
	last := make([]float32, counters)
	last[counters-1] = 1
	g.InitFloats("last", []int64{counters, 1}, last...)
	g.Node("Concat", []string{"x", "h"}, []string{"xh"}, onnxgraph.IntAttr("axis", 1))
	g.Node("Gemm", []string{"xh", "w", "b"}, []string{"sum"}).Node("Tanh", []string{"sum"}, []string{"hn"})
	g.Node("MatMul", []string{"hn", "v"}, []string{"act"})
	g.Node("MatMul", []string{"x", "pick"}, []string{"brought"})
	g.Node("Mul", []string{"brought", "first"}, []string{"begun"}).Node("Add", []string{"id", "begun"}, []string{"idn"})
	g.Node("Add", []string{"count", "one"}, []string{"countn"})
	g.Node("MatMul", []string{"countn", "last"}, []string{"steps"})
	g.Node("Concat", []string{"act", "idn", "steps"}, []string{"y"}, onnxgraph.IntAttr("axis", 1))
	g.Output("y", onnxgraph.Float, "batch", 4).Output("hn", onnxgraph.Float, "batch", memorized)
	return g.Output("idn", onnxgraph.Float, "batch", 1).Output("countn", onnxgraph.Float, "batch", counters).Marshal()
}

// step does a step by itself.
func (r *recurrent) step(x, h []float32) (act [2]float64) {
	xh := slices.Concat(x, h)
	for k := range h {
		sum := float64(r.b[k])
		for i, v := range xh {
			sum += float64(v) * float64(r.w[i*memorized+k])
		}
		h[k] = float32(math.Tanh(sum))
	}
	for k := range h {
		act[0] += float64(h[k]) * float64(r.v[2*k])
		act[1] += float64(h[k]) * float64(r.v[2*k+1])
	}
	return act
}

// observed is a step as its client asks for it.
type observed struct {
	episode    string
	n          uint64
	begin, end bool
	x          []float32
}

// door takes a step by a protocol, and returns y and the version that answered.
type door func(ctx context.Context, o *observed) (y []float32, version int64, err error)

func (o *observed) weft() *weftv1.PredictRequest {
	return &weftv1.PredictRequest{
		Model: &weftv1.ModelSpec{Name: "policy"}, EpisodeId: o.episode, Step: o.n, BeginEpisode: o.begin, EndOfEpisode: o.end,
		Inputs: map[string]*weftv1.Tensor{"x": {
			Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{1, observations}, Raw: rawOf(o.x),
		}},
		OutputEncoding: weftv1.OutputEncoding_OUTPUT_ENCODING_RAW,
	}
}

func rawOf(values []float32) (raw []byte) {
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return raw
}

func floatsOf(raw []byte) (values []float32) {
	for ; len(raw) >= 4; raw = raw[4:] {
		values = append(values, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
	}
	return values
}

// doors are the protocols that steps may come by. The second's calls must not overlap.
func (r *running) doors(ctx context.Context, web *http.Client) []door {
	weft, oip := weftv1.NewPredictionServiceClient(r.conn), inference.NewGRPCInferenceServiceClient(r.conn)
	of := func(a *weftv1.PredictResponse) ([]float32, int64) {
		return floatsOf(a.GetOutputs()["y"].GetRaw()), a.GetModel().GetVersion()
	}
	var stream weftv1.PredictionService_PredictStreamClient
	sent := 0
	parameter := func(b bool) *inference.InferParameter {
		return &inference.InferParameter{ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: b}}
	}
	return []door{
		func(ctx context.Context, o *observed) ([]float32, int64, error) {
			a, err := weft.Predict(ctx, o.weft())
			y, version := of(a)
			return y, version, err
		},
		func(once context.Context, o *observed) (y []float32, version int64, err error) {
			if stream == nil {
				if stream, err = weft.PredictStream(ctx); err != nil {
					return nil, 0, err
				}
			}
			sent++
			m := &weftv1.PredictStreamRequest{Request: o.weft()}
			m.Request.RequestId = strconv.Itoa(sent)
			if deadline, has := once.Deadline(); has {
				m.Timeout = durationpb.New(max(time.Until(deadline), time.Microsecond))
			}
			err = stream.Send(m)
			a, failed := stream.Recv()
			if err = cmp.Or(failed, err); err != nil {
				stream = nil // a connection ends that gives up too many calls
				return nil, 0, err
			}
			y, version = of(a.GetResponse())
			return y, version, status.FromProto(a.GetError()).Err()
		},
		func(ctx context.Context, o *observed) ([]float32, int64, error) {
			q := &inference.ModelInferRequest{
				ModelName: "policy", RawInputContents: [][]byte{rawOf(o.x)},
				Inputs: []*inference.ModelInferRequest_InferInputTensor{
					{Name: "x", Datatype: "FP32", Shape: []int64{1, observations}},
				},
				Parameters: map[string]*inference.InferParameter{
					"sequence_id":    {ParameterChoice: &inference.InferParameter_StringParam{StringParam: o.episode}},
					"sequence_step":  {ParameterChoice: &inference.InferParameter_Uint64Param{Uint64Param: o.n}},
					"sequence_start": parameter(o.begin), "sequence_end": parameter(o.end),
				},
			}
			a, err := oip.ModelInfer(ctx, q)
			if err != nil {
				return nil, 0, err
			}
			version, err := strconv.ParseInt(a.GetModelVersion(), 10, 64)
			return floatsOf(a.GetRawOutputContents()[0]), version, err
		},
		func(ctx context.Context, o *observed) ([]float32, int64, error) { return r.byHTTP(ctx, web, o) },
	}
}

// byHTTP sends a step as JSON.
func (r *running) byHTTP(ctx context.Context, web *http.Client, o *observed) (y []float32, version int64, err error) {
	body, _ := json.Marshal(map[string]any{ //nolint:errchkjson // there are only numbers and texts
		"inputs": []any{map[string]any{"name": "x", "datatype": "FP32", "shape": []int{1, observations}, "data": o.x}},
		"parameters": map[string]any{
			"sequence_id": o.episode, "sequence_step": o.n, "sequence_start": o.begin, "sequence_end": o.end,
		},
	})
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.http+"/v2/models/policy/infer", bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	a, err := web.Do(q)
	if err != nil {
		return nil, 0, status.FromContextError(cmp.Or(ctx.Err(), err)).Err()
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		return nil, 0, status.FromContextError(cmp.Or(ctx.Err(), err)).Err()
	}
	if a.StatusCode != http.StatusOK {
		code := codes.Unavailable
		switch a.StatusCode {
		case http.StatusNotFound:
			code = codes.NotFound
		case http.StatusBadRequest:
			code = codes.FailedPrecondition
		}
		return nil, 0, status.Error(code, string(text))
	}
	var answer struct {
		Version string `json:"model_version"`
		Outputs []struct {
			Data []float32 `json:"data"`
		} `json:"outputs"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, 0, err
	}
	version, err = strconv.ParseInt(answer.Version, 10, 64)
	return answer.Outputs[0].Data, version, err
}

// robot is a client that has one episode after the other.
type robot struct {
	t     *testing.T
	rng   *rand.Rand
	name  string
	doors []door
	own   door
	done  *atomic.Int64 // steps of all robots
}

// play has an episode. Each of its steps is given up, doubled or sent again at times, numbers are left out, and copies
// come late; each is answered once, by the version that answered the first.
func (r *robot) play(ctx context.Context, number, steps int) {
	var policy *recurrent
	var by int64
	h := make([]float32, memorized)
	o := observed{episode: fmt.Sprintf("%s/%d", r.name, number)}
	for i := range steps {
		o.n++
		if i > 0 && r.rng.IntN(20) == 0 {
			o.n += uint64(r.rng.IntN(3))
		}
		o.begin, o.end = i == 0, i == steps-1
		o.x = []float32{float32(number), r.rng.Float32(), r.rng.Float32(), r.rng.Float32()}
		y, version := r.insist(ctx, &o)
		if y == nil {
			return
		}
		if policy == nil {
			policy, by = recurrentOf(version), version
		}
		want := policy.step(o.x, h)
		switch {
		case version != by:
			r.t.Errorf("%s step %d: version %d answered, and %d the first", o.episode, o.n, version, by)
			return
		case len(y) != 4 || y[2] != float32(number) || y[3] != float32(i+1):
			r.t.Errorf("%s step %d: %v, want the end to be %d, %d", o.episode, o.n, y, number, i+1)
			return
		case math.Abs(float64(y[0])-want[0]) > 1e-4 || math.Abs(float64(y[1])-want[1]) > 1e-4: // batches round
			r.t.Errorf("%s step %d: %v, alone %v", o.episode, o.n, y, want)
			return
		}
		r.done.Add(1)
		if late := o; i > 1 && r.rng.IntN(30) == 0 {
			late.n, late.end = 1, false
			if _, _, err := r.own(ctx, &late); err == nil {
				r.t.Errorf("%s step 1 came after step %d, and was answered", o.episode, o.n)
			}
		}
	}
}

// insist sends a step until it is answered; nil: it cannot be.
func (r *robot) insist(ctx context.Context, o *observed) (y []float32, version int64) {
	for ctx.Err() == nil {
		once, cancel := ctx, func() {}
		if r.rng.IntN(12) == 0 {
			once, cancel = context.WithTimeout(ctx, time.Duration(r.rng.IntN(2000))*time.Microsecond)
		}
		doubled := make(chan []float32, 1)
		if r.rng.IntN(10) == 0 {
			also := r.doors[[]int{0, 2, 3}[r.rng.IntN(3)]]
			go func() {
				second, _, _ := also(ctx, o) // the other one is insisted on
				doubled <- second
			}()
		} else {
			doubled <- nil
		}
		first, version, err := r.own(once, o)
		cancel()
		second := <-doubled
		switch c := status.Code(err); {
		case err == nil:
			if second != nil && !slices.Equal(first, second) {
				r.t.Errorf("%s step %d: two answers to one step: %v, %v", o.episode, o.n, first, second)
			}
			return first, version
		case c == codes.NotFound, c == codes.FailedPrecondition, c == codes.InvalidArgument:
			r.t.Errorf("%s step %d: %v", o.episode, o.n, err)
			return nil, 0
		}
	}
	return nil, 0
}

// TestEpisodesOutliveWorkers: the state of episodes is in the server. While the processes that run the model are
// killed, versions take over from each other, and steps are given up, sent again, doubled and late, by all protocols,
// each answer is that of the model alone, and each step counts once.
func TestEpisodesOutliveWorkers(t *testing.T) {
	robots, episodes, steps := weftest.Times(24, 1000), weftest.Times(2, 20), weftest.Times(20, 50)
	all, versions := int64(robots*episodes*steps), int64(weftest.Times(3, 8))
	root := t.TempDir()
	add := func(version int64) {
		dir := filepath.Join(root, "policy", ".next")
		for _, err := range []error{
			os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "model.onnx"), recurrentOf(version).onnx(), 0o600),
			os.Rename(dir, filepath.Join(root, "policy", strconv.FormatInt(version, 10))),
		} {
			if err != nil {
				t.Error(err)
			}
		}
	}
	add(1)
	weftest.SetManifest(t, root, "policy", `state:
  pairs: [{input: h, output: hn}, {input: id, output: idn}, {input: count, output: countn}]
  start: first
`)
	r := serveFrom(t, root, func(a *App) { a.Isolation = config.IsolateDevice })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: robots}}
	defer web.CloseIdleConnections()

	var done atomic.Int64
	reached := func(steps int64) bool {
		for done.Load() < steps && ctx.Err() == nil && !t.Failed() {
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
			}
		}
		return done.Load() >= steps
	}
	var trouble sync.WaitGroup
	trouble.Go(func() {
		for n := int64(1); n < 20 && reached(n*all/20); n++ {
			for _, pid := range weftest.Children(os.Getpid()) {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended already
			}
		}
	})
	trouble.Go(func() {
		for v := int64(2); v <= versions && reached((v-1)*all/(versions+1)); v++ {
			add(v)
		}
	})
	var clients sync.WaitGroup
	for i := range robots {
		clients.Go(func() {
			doors := r.doors(ctx, web)
			rng := rand.New(rand.NewPCG(uint64(i), 43))
			client := robot{t, rng, fmt.Sprintf("robot %d", i), doors, doors[i%len(doors)], &done}
			for e := range episodes {
				client.play(ctx, i*episodes+e, steps)
			}
		})
	}
	clients.Wait()
	trouble.Wait()
	if done.Load() != all {
		t.Errorf("%d steps of %d were answered", done.Load(), all)
	}
	if n := r.metric(t, `weft_episode_states\{model="policy"\}`); n != "" {
		t.Errorf("in the end the states of %s episodes are there", n)
	}
	t.Logf("%d steps of %d episodes, while processes were killed 19 times, and %d versions took over", all,
		robots*episodes, versions-1)
}
