package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/internal/onnxgraph"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// shortage is a model that asks for more memory than it may have.
type shortage struct {
	name  string
	limit string // device_memory_limit; "" for none
	meal  int64  // floats
}

var (
	beyondDevice = shortage{name: "beyond_device", meal: 1 << 50} // more than a processor can address
	beyondLimit  = shortage{name: "beyond_limit", limit: "1GiB", meal: 1 << 29}
)

// memory makes requests run out of memory while others that do not are running: of another model, and of the same one,
// but in executions of their own. Only those that ran out may fail.
func (s *suite) memory(ctx context.Context) error {
	cases := []shortage{beyondDevice}
	if s.onGPU() {
		cases = append(cases, beyondLimit)
	} else {
		s.report.skip("memory: beyond onnx.device_memory_limit", "the CPU has no such limit")
	}
	var errs []error
	for _, c := range cases {
		if err := s.runOut(ctx, c); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.name, err))
		}
	}
	return errors.Join(errs...)
}

// placeShortage writes the model and its neighbour into a repository.
func (s *suite) placeShortage(repository string, c shortage) error {
	onnx := "providers: [" + s.provider() + "]"
	limited := onnx
	if c.limit != "" {
		limited += ", device_memory_limit: " + c.limit
	}
	return errors.Join(
		write(filepath.Join(repository, "glutton", "1", "model.onnx"), glutton(c.meal)),
		write(filepath.Join(repository, "glutton", "model.yaml"), fmt.Appendf(nil,
			"onnx: {%s}\nbatching: {mode: \"on\", unbatched: [%s]}\n", limited, sizeName)),
		write(filepath.Join(repository, "neighbour", "1", "model.onnx"),
			onnxgraph.MLP("neighbour", []int{policyInput, 256, policyOutput}, 1, "Tanh", "")),
		write(filepath.Join(repository, "neighbour", "model.yaml"), fmt.Appendf(nil, "onnx: {%s}\n", onnx)),
	)
}

// runOut asks for too much again and again while others ask for little.
func (s *suite) runOut(ctx context.Context, c shortage) (err error) {
	repository := s.repository(c.name)
	if err := s.placeShortage(repository, c); err != nil {
		return err
	}
	v, err := s.serve(ctx, s.folder("memory_"+c.name), repository)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.stop()) }()

	modest := rowsOf("glutton", inputName, 1, 4, randomFloats(4))
	modest.Inputs[sizeName] = &weftv1.Tensor{Dtype: weftv1.DataType_DATA_TYPE_INT64, Int64Values: []int64{notMuch}}
	// The request has several rows, so that the server tries it in halves as well.
	greedy := rowsOf("glutton", inputName, 4, 4, randomFloats(4*4))
	greedy.Inputs[sizeName] = proto.CloneOf(modest.GetInputs()[sizeName])
	greedy.Inputs[sizeName].Int64Values[0] = hungry
	neighbour := rowsOf("neighbour", onnxgraph.MLPInput, 1, policyInput, randomFloats(policyInput))

	loads := []*load{{request: modest, callers: 4}, {request: neighbour, callers: 4}}
	stop := sync.OnceFunc(start(ctx, v.conns, loads...))
	defer stop()
	const times = 10
	ran, other := 0, ""
	for range times {
		switch _, err := v.predictions().Predict(ctx, greedy); {
		case ranOut(err):
			ran++
		case err == nil:
			other = "; one was answered"
		default:
			other = "; one failed with " + err.Error()
		}
		if err := wait(ctx, s.Span/times/4); err != nil {
			return err
		}
	}
	stop()

	calls := loads[0].calls.Load() + loads[1].calls.Load()
	failures := loads[0].failures.Load() + loads[1].failures.Load()
	after := 0
	for _, request := range []*weftv1.PredictRequest{modest, neighbour} {
		for range times {
			if _, err := v.predictions().Predict(ctx, request); err == nil {
				after++
			}
		}
	}
	measured := fmt.Sprintf("%d of %d ran out%s; %d of %d others failed; %d of %d answered afterwards", ran, times,
		other, failures, calls, after, 2*times)
	if fault := errors.Join(loads[0].err(), loads[1].err()); fault != nil {
		measured += "; " + fault.Error()
	}
	s.report.judge("memory: "+strings.ReplaceAll(c.name, "_", " "), "all of these fail, no others; it serves on",
		measured,
		ran == times && failures == 0 && calls > 0 && after == 2*times)
	return nil
}

// ranOut reports whether a request failed because there was not enough memory for it.
func ranOut(err error) bool {
	text := strings.ToLower(status.Convert(err).Message())
	return status.Code(err) == codes.Internal &&
		(strings.Contains(text, "memory") || strings.Contains(text, "bad_alloc"))
}
