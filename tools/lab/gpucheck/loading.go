package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weftserve/weft/internal/onnxgraph"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// loads is how often another model is loaded next to a steady one.
const loads = 20

// loading measures how late the answers of a small policy are that is asked at a steady pace, while nothing else
// happens and while another model is loaded again and again.
func (s *suite) loading(ctx context.Context) error {
	repository := s.repository("loading")
	sizes := []int{policyInput}
	for range 8 {
		sizes = append(sizes, 1024)
	}
	other := onnxgraph.MLP("other", append(sizes, policyOutput), 1, "Tanh", "")
	for model, network := range map[string][]byte{"steady": smallPolicy("steady"), "other": other} {
		if _, err := s.place(repository, model, network, "", ""); err != nil {
			return err
		}
	}
	return s.serve(ctx, "loading", repository, func(v *server) error {
		admin, err := grpc.NewClient(v.Admin, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		defer admin.Close()
		quiet, err := s.paced(ctx, v, func() error { return wait(ctx, s.Span) })
		if err != nil {
			return err
		}
		during, err := s.paced(ctx, v, func() error { return reload(ctx, weftv1.NewAdminServiceClient(admin)) })
		if err != nil {
			return err
		}
		s.report.tell("loading: a steady policy alone", late(quiet))
		s.report.tell(fmt.Sprintf("loading: the same while another model is loaded %d times", loads), late(during))
		return nil
	})
}

// reload unloads the other model and loads it again.
func reload(ctx context.Context, admin weftv1.AdminServiceClient) error {
	for range loads {
		if _, err := admin.UnloadVersion(ctx, &weftv1.UnloadVersionRequest{Model: "other", Version: 1}); err != nil {
			return fmt.Errorf("cannot unload it: %w", err)
		}
		if _, err := admin.LoadVersion(ctx, &weftv1.LoadVersionRequest{Model: "other", Version: 1}); err != nil {
			return fmt.Errorf("cannot load it again: %w", err)
		}
	}
	return nil
}

// paced asks for one row every 10 ms while do runs. It returns how long after its moment each answer was there, also if
// an earlier one held it up.
func (s *suite) paced(ctx context.Context, v *server, do func() error) (took []time.Duration, err error) {
	const every = 10 * time.Millisecond
	done := make(chan error, 1)
	go func() { done <- do() }()
	request := rowsOf("steady", onnxgraph.MLPInput, 1, policyInput)
	for due := time.Now(); ; due = due.Add(every) {
		if err := wait(ctx, time.Until(due)); err != nil {
			return nil, err
		}
		if _, err := v.predictions().Predict(ctx, request); err != nil {
			return nil, fmt.Errorf("steady: %w", err)
		}
		took = append(took, time.Since(due))
		select {
		case err := <-done:
			return took, err
		default:
		}
	}
}

// late describes times.
func late(took []time.Duration) string {
	slices.Sort(took)
	at := func(part float64) time.Duration {
		return took[min(int(part*float64(len(took))), len(took)-1)].Round(time.Microsecond)
	}
	return fmt.Sprintf("p50 %v, p99 %v, longest %v of %d", at(0.5), at(0.99), at(1), len(took))
}
