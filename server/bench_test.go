package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/proto/gen/tensorflow"
	"github.com/weftserve/weft/proto/gen/tensorflow/serving"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/episode"
	"github.com/weftserve/weft/server/openinference"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/server/status"
	"github.com/weftserve/weft/server/tfserving"
	"github.com/weftserve/weft/server/transport"
	"github.com/weftserve/weft/server/weftapi"
	"github.com/weftserve/weft/sharedsched"
)

// mirror is a model that answers with its only input at once.
type mirror struct{ snapshot *catalog.Snapshot }

func (m mirror) Snapshot() *catalog.Snapshot { return m.snapshot }

func (mirror) Predict(_ context.Context, call *catalog.Call) error {
	in := &call.Inputs[0]
	data := *call.Memory.Get(in.Size())
	in.CopyTo(data)
	call.Results = []tensor.Tensor{{DType: in.DType, Shape: slices.Clone(in.Shape), Data: data}}
	return nil
}

// BenchmarkPredict measures the way of a request with one fp32 input of so many bytes through the server, without gRPC
// and without a model: it is read, routed, decoded, answered with its input, and encoded. 192 bytes are those of a
// small policy. What is larger than a frame of gRPC comes in several.
func BenchmarkPredict(b *testing.B) {
	spec := []tensor.Spec{{Name: "x", DType: tensor.Float32, Shape: tensor.Shape{tensor.Unknown}, BatchDim: 0}}
	version := &catalog.Version{
		Model: "one", Number: 1, State: catalog.Ready, Signature: &tensor.Signature{Inputs: spec, Outputs: spec},
	}
	memory := &tensor.Recycler{}
	calls := &transport.Calls{
		MaxMessageBytes: 16 << 20, Memory: memory,
		Pipeline: predict.New(predict.Config{
			Explain: status.Explain, Logger: slog.New(slog.DiscardHandler), Memory: memory,
		}, mirror{servertest.SnapshotOf(1, &catalog.Model{Name: "one", Versions: []*catalog.Version{version}})}),
	}
	weft := weftapi.Predictions{API: &weftapi.API{Calls: calls}}
	oip := &openinference.Service{Calls: calls}
	tfs := tfserving.Predictions{Calls: calls}
	for _, size := range []int{192, 4 << 10, 64 << 10, 600 << 10} {
		raw, list, shape := make([]byte, size), make([]float32, size/4), []int64{int64(size / 4)}
		ofWeft := func(t *weftv1.Tensor) proto.Message {
			t.Dtype, t.Shape = weftv1.DataType_DATA_TYPE_FP32, shape
			return &weftv1.PredictRequest{Model: &weftv1.ModelSpec{Name: "one"}, Inputs: map[string]*weftv1.Tensor{"x": t}}
		}
		ofOIP := func(raw [][]byte, c *inference.InferTensorContents) proto.Message {
			return &inference.ModelInferRequest{
				ModelName: "one", RawInputContents: raw, Inputs: []*inference.ModelInferRequest_InferInputTensor{
					{Name: "x", Datatype: "FP32", Shape: shape, Contents: c},
				},
			}
		}
		ofTFS := func(t *tensorflow.TensorProto) proto.Message {
			t.Dtype = tensorflow.DataType_DT_FLOAT
			t.TensorShape = &tensorflow.TensorShapeProto{Dim: []*tensorflow.TensorShapeProto_Dim{{Size: shape[0]}}}
			return &serving.PredictRequest{
				ModelSpec: &serving.ModelSpec{Name: "one"}, Inputs: map[string]*tensorflow.TensorProto{"x": t},
			}
		}
		for _, c := range []struct {
			name, method string
			of           interface {
				NewRequest(method string) transport.Request
			}
			m proto.Message
		}{
			{"weft/raw", "Predict", weft, ofWeft(&weftv1.Tensor{Raw: raw})},
			{"weft/typed", "Predict", weft, ofWeft(&weftv1.Tensor{FloatValues: list})},
			{"oip/raw", "ModelInfer", oip, ofOIP([][]byte{raw}, nil)},
			{"oip/typed", "ModelInfer", oip, ofOIP(nil, &inference.InferTensorContents{Fp32Contents: list})},
			{"tfs/raw", "Predict", tfs, ofTFS(&tensorflow.TensorProto{TensorContent: raw})},
			{"tfs/typed", "Predict", tfs, ofTFS(&tensorflow.TensorProto{FloatVal: list})},
		} {
			data, err := proto.Marshal(c.m)
			if err != nil {
				b.Fatal(err)
			}
			var frames mem.BufferSlice
			for frame := range slices.Chunk(data, 16<<10) {
				frames = append(frames, mem.SliceBuffer(frame))
			}
			b.Run(fmt.Sprintf("%s/%dB", c.name, size), func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					request := c.of.NewRequest(c.method)
					if err := request.Take(frames); err != nil {
						b.Fatal(err)
					}
					answer, err := calls.Run(b.Context(), request)
					if err != nil {
						b.Fatal(err)
					}
					if encoded, is := answer.(*transport.Encoded); is {
						encoded.Pieces().Free()
					} else if _, err := proto.Marshal(answer.(proto.Message)); err != nil { // as gRPC does
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// recur is a model that answers with its input x, and gives its state h on.
type recur struct{ mirror }

func (recur) Predict(_ context.Context, call *catalog.Call) error {
	for _, at := range call.Wanted {
		in := &call.Inputs[at]
		data := *call.Memory.Get(in.Size())
		in.CopyTo(data)
		call.Results = append(call.Results, tensor.Tensor{DType: in.DType, Shape: slices.Clone(in.Shape), Data: data})
	}
	return nil
}

// BenchmarkStep measures the way of a step of 192 bytes as [BenchmarkPredict] does that of a request, where the server
// keeps a state of so many bytes; 0: none.
func BenchmarkStep(b *testing.B) {
	for _, size := range []int64{0, 1 << 10, 16 << 10} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			spec := []tensor.Spec{{Name: "x", DType: tensor.Float32, Shape: tensor.Shape{tensor.Unknown, 48}, BatchDim: 0}}
			version := &catalog.Version{Model: "one", Number: 1, State: catalog.Ready}
			if size > 0 {
				spec = append(spec, tensor.Spec{Name: "h", DType: tensor.Float32, Shape: tensor.Shape{tensor.Unknown, size / 4}})
				h := catalog.StateInput{Input: 1, Output: 1, Of: -1, Initial: tensor.Tensor{
					DType: tensor.Float32, Shape: tensor.Shape{1, size / 4}, Data: make([]byte, size),
				}}
				version.EpisodeState = &catalog.EpisodeState{
					Inputs: []catalog.StateInput{h}, MaxEpisodes: 1, Idle: time.Hour,
				}
			}
			version.Signature = &tensor.Signature{Inputs: spec, Outputs: spec}
			memory := &tensor.Recycler{}
			calls := &transport.Calls{
				MaxMessageBytes: 16 << 20, Memory: memory,
				Pipeline: predict.New(predict.Config{
					Explain: status.Explain, Logger: slog.New(slog.DiscardHandler), Memory: memory,
					Episodes: episode.NewStore(episode.Config{Memory: 1 << 20}),
				}, recur{mirror{servertest.SnapshotOf(1, &catalog.Model{Name: "one", Versions: []*catalog.Version{version}})}}),
			}
			weft := weftapi.Predictions{API: &weftapi.API{Calls: calls}}
			b.ReportAllocs()
			for n := uint64(1); b.Loop(); n++ {
				data, err := proto.Marshal(&weftv1.PredictRequest{
					Model: &weftv1.ModelSpec{Name: "one"}, EpisodeId: "robot-7/42", Step: n, BeginEpisode: n == 1,
					Inputs: map[string]*weftv1.Tensor{"x": {
						Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{1, 48}, Raw: make([]byte, 192),
					}}, Outputs: []string{"x"},
				})
				if err != nil {
					b.Fatal(err)
				}
				request := weft.NewRequest("Predict")
				if err := request.Take(mem.BufferSlice{mem.SliceBuffer(data)}); err != nil {
					b.Fatal(err)
				}
				answer, err := calls.Run(b.Context(), request)
				if err != nil {
					b.Fatal(err)
				}
				answer.(*transport.Encoded).Pieces().Free()
			}
		})
	}
}

// BenchmarkReport measures what load reports cost an echo by gRPC over TCP, whose 16 callers are on the same
// processors: answers a second, and processor time of an answer, with reports as a part of what they are without. Both
// servers take turns.
func BenchmarkReport(b *testing.B) {
	spec := []tensor.Spec{{Name: "x", DType: tensor.Float32, Shape: tensor.Shape{tensor.Unknown}, BatchDim: 0}}
	models := mirror{servertest.SnapshotOf(1, &catalog.Model{Name: "one", Versions: []*catalog.Version{
		{Model: "one", Number: 1, State: catalog.Ready, Signature: &tensor.Signature{Inputs: spec, Outputs: spec}},
	}})}
	const callers, turn = 16, 100 * time.Millisecond
	var clients [2]weftv1.PredictionServiceClient
	for i := range clients {
		memory := &tensor.Recycler{}
		config := server.Config{Logger: slog.New(slog.DiscardHandler), Memory: memory}
		began, load := time.Now(), 0
		if i == 1 {
			config.Load = func() (sharedsched.Time, []sharedsched.DeviceLoad) { // whose reports change
				at := time.Since(began)
				load++
				return sharedsched.Time(at), []sharedsched.DeviceLoad{
					{Name: "cpu", Busy: at / 3, Work: time.Duration(load%7) * time.Millisecond},
				}
			}
		}
		s := server.New(config, models, nil)
		if i == 1 {
			go s.Load().Watch(b.Context())
		}
		g := grpc.NewServer(append(transport.Options(transport.DefaultMaxMessageBytes, memory),
			s.Options(insecure.NewCredentials())...)...)
		s.Register(g)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		go func() { _ = g.Serve(listener) }() // until it is stopped
		conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			_ = conn.Close()
			g.Stop()
		})
		clients[i] = weftv1.NewPredictionServiceClient(conn)
	}
	request := &weftv1.PredictRequest{Model: &weftv1.ModelSpec{Name: "one"}, Inputs: map[string]*weftv1.Tensor{
		"x": {Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{48}, Raw: make([]byte, 192)},
	}}
	var answers, used [2]float64
	ask := func(which int) {
		var all sync.WaitGroup
		var n atomic.Int64
		began, end := processorTime(b), time.Now().Add(turn)
		for range callers {
			all.Go(func() {
				for time.Now().Before(end) {
					if _, err := clients[which].Predict(b.Context(), request); err != nil {
						b.Error(err)
						return
					}
					n.Add(1)
				}
			})
		}
		all.Wait()
		answers[which] += float64(n.Load())
		used[which] += (processorTime(b) - began).Seconds()
	}
	ask(0)
	ask(1)
	answers, used = [2]float64{}, [2]float64{}
	for b.Loop() {
		for _, which := range []int{0, 1, 1, 0} {
			ask(which)
		}
	}
	b.ReportMetric(answers[0]/(2*turn.Seconds()*float64(b.N)), "answers/s")
	b.ReportMetric(answers[1]/answers[0], "answers-with/without")
	b.ReportMetric(used[1]/answers[1]/(used[0]/answers[0]), "processor-with/without")
}

// processorTime returns how much this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
