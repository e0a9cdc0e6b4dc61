package main

import (
	"context"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// load is a number of callers of one model; each asks again as soon as its answer is there.
type load struct {
	request *weftv1.PredictRequest
	callers int

	calls, failures atomic.Int64
	fault           atomic.Pointer[error] // the first
}

// err is the first failure of a call.
func (l *load) err() error {
	if fault := l.fault.Load(); fault != nil {
		return *fault
	}
	return nil
}

// start runs loads until the function that it returns is called, which waits for them. Calls that are broken off by
// this end do not count.
func start(ctx context.Context, conns []*grpc.ClientConn, loads ...*load) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var callers sync.WaitGroup
	for _, l := range loads {
		for i := range l.callers {
			client := weftv1.NewPredictionServiceClient(conns[i%len(conns)])
			callers.Go(func() {
				for {
					_, err := client.Predict(ctx, l.request)
					if ctx.Err() != nil {
						return
					}
					l.calls.Add(1)
					if err != nil {
						l.failures.Add(1)
						l.fault.CompareAndSwap(nil, &err)
					}
				}
			})
		}
	}
	return func() {
		cancel()
		callers.Wait()
	}
}

// rowsOf asks a model for that many rows of random numbers.
func rowsOf(name, input string, rows, width int) *weftv1.PredictRequest {
	return &weftv1.PredictRequest{
		Model: &weftv1.ModelSpec{Name: name},
		Inputs: map[string]*weftv1.Tensor{input: {
			Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{int64(rows), int64(width)},
			Raw: randomFloats(rows * width),
		}},
		OutputEncoding: weftv1.OutputEncoding_OUTPUT_ENCODING_RAW,
	}
}
