package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/internal/onnxgraph"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// shortage is a model that asks for more memory than it may have.
type shortage struct {
	name  string
	limit string // device_memory_limit, after a comma; "" for none
	meal  int64  // floats
}

var (
	beyondDevice = shortage{name: "beyond_device", meal: 1 << 50} // more than a processor can address
	beyondLimit  = shortage{name: "beyond_limit", limit: ", device_memory_limit: 1GiB", meal: 1 << 29}
)

// memory makes requests run out of memory while others that do not are running: of another model, and of the same one,
// but in executions of their own. Only the ones that ran out may fail.
func (s *suite) memory(ctx context.Context) error {
	cases := []shortage{beyondDevice, beyondLimit}
	if !s.onGPU() {
		s.report.skip("memory: beyond onnx.device_memory_limit", "the CPU has no such limit")
		cases = cases[:1]
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
	_, err1 := s.place(repository, "glutton", glutton(c.meal), c.limit,
		fmt.Sprintf("batching: {mode: \"on\", unbatched: [%s]}\n", sizeName))
	_, err2 := s.place(repository, "neighbour",
		onnxgraph.MLP("neighbour", []int{policyInput, 256, policyOutput}, 1, "Tanh", ""), "", "")
	return errors.Join(err1, err2)
}

// runOut asks for too much again and again while others ask for little.
func (s *suite) runOut(ctx context.Context, c shortage) error {
	repository := s.repository(c.name)
	if err := s.placeShortage(repository, c); err != nil {
		return err
	}
	eater := func(rows int, size int64) *weftv1.PredictRequest {
		request := rowsOf("glutton", inputName, rows, 4)
		request.Inputs[sizeName] = &weftv1.Tensor{
			Dtype: weftv1.DataType_DATA_TYPE_INT64, Int64Values: []int64{size},
		}
		return request
	}
	// The greedy request has several rows, so that the server tries it in halves as well.
	modest, greedy := eater(1, notMuch), eater(4, hungry)
	neighbour := rowsOf("neighbour", onnxgraph.MLPInput, 1, policyInput)
	return s.serve(ctx, "memory_"+c.name, repository, func(v *server) error {
		loads := []*load{{request: modest, callers: 4}, {request: neighbour, callers: 4}}
		stop := start(ctx, v.conns, loads...)
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

		calls, failures := int64(0), int64(0)
		after := 0
		for _, l := range loads {
			calls, failures = calls+l.calls.Load(), failures+l.failures.Load()
			for range times {
				if _, err := v.predictions().Predict(ctx, l.request); err == nil {
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
			measured, ran == times && failures == 0 && calls > 0 && after == 2*times)
		return nil
	})
}

// ranOut reports whether a request failed because there was not enough memory for it.
func ranOut(err error) bool {
	return slices.ContainsFunc(status.Convert(err).Details(), func(detail any) bool {
		info, is := detail.(*errdetails.ErrorInfo)
		return is && info.GetReason() == "OUT_OF_MEMORY"
	})
}
