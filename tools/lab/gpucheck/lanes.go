package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weftserve/weft/internal/onnxgraph"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// asked is a model, questions of 8 rows, and its answers to them when nothing else was running.
type asked struct {
	model    string
	requests []*weftv1.PredictRequest
	truths   []*weftv1.PredictResponse
}

// lanes keeps both lanes of the device busy with different models for a while: each answer must be the one that the
// model gave alone. A mistake of one run in the memory of another shows here, or a device that is lost by it.
func (s *suite) lanes(ctx context.Context) error {
	repository := s.repository("lanes")
	contests, _ := contests()
	for _, c := range contests {
		if err := s.placeContest(repository, &c); err != nil {
			return err
		}
	}
	return s.serve(ctx, "lanes", repository, func(v *server) error {
		var all []*asked
		for _, c := range contests {
			for _, model := range s.variants(&c) {
				a, err := ask(ctx, v, model, c.width)
				if err != nil {
					return err
				}
				all = append(all, a)
			}
		}
		span := 3 * s.Span
		n, far, err := s.soak(ctx, v, all, span)
		if err != nil {
			return err
		}
		s.report.judge(fmt.Sprintf("lanes: answers of %d models at once", len(all)), s.tolerances(),
			fmt.Sprintf("%v; %d answers in %v", far, n, span), far.within && n > 0)
		return nil
	})
}

// ask asks a model a few questions, one after the other.
func ask(ctx context.Context, v *server, model string, width int) (*asked, error) {
	const questions, rows = 8, 8
	numbers, size := randomFloats(questions*rows*width), 4*rows*width
	a := &asked{model: model}
	for k := range questions {
		request := rowsOf(model, onnxgraph.MLPInput, rows, width)
		request.Inputs[onnxgraph.MLPInput].Raw = numbers[k*size:][:size]
		answer, err := v.predictions().Predict(ctx, request)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", model, err)
		}
		a.requests, a.truths = append(a.requests, request), append(a.truths, answer)
	}
	return a, nil
}

// soak has callers ask all models at once for a time. It returns the number of answers and the largest difference from
// the answers that the models gave alone.
func (s *suite) soak(ctx context.Context, v *server, all []*asked, span time.Duration,
) (n int, far difference, err error) {
	const callers = 4                      // of each model: more than both lanes hold
	ctx, cancel := context.WithCancel(ctx) // not with a deadline, which the server would refuse late requests for
	defer cancel()
	defer time.AfterFunc(span, cancel).Stop()
	far.within = true
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, a := range all {
		for caller := range callers {
			client := weftv1.NewPredictionServiceClient(v.conns[caller%len(v.conns)])
			group.Go(func() {
				for k := caller; ; k++ {
					k := k % len(a.requests)
					answer, fault := client.Predict(ctx, a.requests[k])
					if ctx.Err() != nil {
						return
					}
					found := s.compare(a.model, outputs(a.truths[k]), outputs(answer))
					mu.Lock()
					if fault != nil {
						err = errors.Join(err, fmt.Errorf("%s: %w", a.model, fault))
						cancel()
					} else {
						n++
						far.add(found)
					}
					mu.Unlock()
				}
			})
		}
	}
	group.Wait()
	return n, far, err
}
