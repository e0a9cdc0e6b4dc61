package main

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// controlName is what a strike is called that does no harm: ordinary requests from as many connections.
const controlName = "control"

// mostInFlight bounds the requests of one ordinary connection. Beyond it the load is closed: the next request waits.
const mostInFlight = 4

// control sends ordinary requests at a rate.
func (c *strikeCommand) control(ctx context.Context, t *tally) error {
	var all sync.WaitGroup
	defer all.Wait()
	for range c.Connections {
		conn, err := dial(c.Target)
		if err != nil {
			return err
		}
		all.Go(func() {
			defer conn.Close()
			t.count(&t.Dialed)
			ordinary(ctx, conn, c.Rate/float64(c.Connections), t)
			t.count(&t.Open)
		})
	}
	return nil
}

func dial(target string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:"+target, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)))
}

// ordinary has callers take turns in what is due, which is a sixteenth of a second's worth at most.
func ordinary(ctx context.Context, conn *grpc.ClientConn, rate float64, t *tally) {
	client := weftv1.NewPredictionServiceClient(conn)
	due := make(chan struct{}, int(rate/16)+1)
	var callers sync.WaitGroup
	for range mostInFlight {
		callers.Go(func() {
			for range due {
				if _, err := client.Predict(ctx, policyRequest()); ctx.Err() == nil {
					t.done.Add(1)
					t.note(&t.Statuses, status.Code(err).String())
				}
			}
		})
	}
	beats := time.NewTicker(5 * time.Millisecond)
	defer beats.Stop()
	began, sent := time.Now(), 0
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-beats.C:
			for ; sent < int(rate*time.Since(began).Seconds()); sent++ {
				select {
				case due <- struct{}{}:
				default: // the server is behind
				}
			}
		}
	}
	close(due)
	callers.Wait()
}
