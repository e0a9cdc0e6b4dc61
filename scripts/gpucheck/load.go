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
	mu              sync.Mutex
	fault           error // guarded by mu; the first
}

// run asks until ctx ends. Calls that are broken off by this end do not count.
func (l *load) run(ctx context.Context, conns []*grpc.ClientConn) {
	var callers sync.WaitGroup
	for i := range l.callers {
		client := weftv1.NewPredictionServiceClient(conns[i%len(conns)])
		callers.Go(func() {
			for ctx.Err() == nil {
				_, err := client.Predict(ctx, l.request)
				if ctx.Err() != nil {
					return
				}
				l.calls.Add(1)
				if err != nil {
					l.fail(err)
				}
			}
		})
	}
	callers.Wait()
}

func (l *load) fail(err error) {
	l.failures.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault == nil {
		l.fault = err
	}
}

// err is the first failure of a call.
func (l *load) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fault
}

// start runs loads until the function that it returns is called, which waits for them.
func start(ctx context.Context, conns []*grpc.ClientConn, loads ...*load) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, l := range loads {
		running.Go(func() { l.run(ctx, conns) })
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// rowsOf asks a model for that many rows of numbers.
func rowsOf(name, input string, rows, width int, numbers []byte) *weftv1.PredictRequest {
	return &weftv1.PredictRequest{
		Model: &weftv1.ModelSpec{Name: name},
		Inputs: map[string]*weftv1.Tensor{input: {
			Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{int64(rows), int64(width)}, Raw: numbers,
		}},
		OutputEncoding: weftv1.OutputEncoding_OUTPUT_ENCODING_RAW,
	}
}
