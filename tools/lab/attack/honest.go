package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/tools/lab/harness"
)

const (
	honestCallers  = 16
	honestRate     = 250 // requests a second
	honestDeadline = 10 * time.Second
	visitInterval  = 200 * time.Millisecond // of the caller that connects anew for each request
)

// honestCommand asks a server as honest callers do, and prints how they fared. It says "ready", and begins when it is
// told a line.
type honestCommand struct {
	Target string        `required:""`
	Span   time.Duration `required:""`
}

// fared is how honest callers fared.
type fared struct {
	Ms     []float64 // from when each request was due until it was answered, ascending
	Visits []float64 // the same, of the caller that connects anew for each
	Lost   int       // of both
	Sent   int
	Errors []string // the first few
}

// Run waits for the word, asks, and prints.
func (c *honestCommand) Run(ctx context.Context, o harness.Output) error {
	h, err := newHonest(ctx, c.Target)
	if err != nil {
		return err
	}
	defer h.conn.Close()
	fmt.Fprintln(o.Out, readyWord)
	if _, err := bufio.NewReader(o.In).ReadString('\n'); err != nil {
		return err
	}
	return json.NewEncoder(o.Out).Encode(h.ask(ctx, c.Span))
}

const readyWord = "ready"

// honest is callers who share a connection, and one who connects now and then.
type honest struct {
	target string
	conn   *grpc.ClientConn

	mu    sync.Mutex
	fared fared // guarded by mu
}

// newHonest connects. The error says that the server does not answer.
func newHonest(ctx context.Context, target string) (*honest, error) {
	conn, err := dial(target)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, honestDeadline)
	defer cancel()
	for range honestCallers {
		if _, err := weftv1.NewPredictionServiceClient(conn).Predict(ctx, policyRequest()); err != nil {
			return nil, fmt.Errorf("%s: the server does not answer an honest caller: %w", target, err)
		}
	}
	return &honest{target: target, conn: conn}, nil
}

// ask sends what is due within a span, at times that do not depend on the answers, and returns when all have ended.
// What was not answered one deadline after the span is lost.
func (h *honest) ask(ctx context.Context, span time.Duration) fared {
	ctx, cancel := context.WithTimeout(ctx, span+honestDeadline)
	defer cancel()
	began := time.Now()
	var all sync.WaitGroup
	for i := range honestCallers {
		all.Go(func() {
			const gap = time.Second * honestCallers / honestRate
			for at := gap * time.Duration(i) / honestCallers; at < span; at += gap {
				h.one(ctx, began.Add(at), h.conn, false)
			}
		})
	}
	all.Go(func() {
		for at := time.Duration(0); at < span; at += visitInterval {
			h.visit(ctx, began.Add(at))
		}
	})
	all.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.Sort(h.fared.Ms)
	slices.Sort(h.fared.Visits)
	return h.fared
}

func (h *honest) visit(ctx context.Context, due time.Time) {
	time.Sleep(time.Until(due))
	conn, err := dial(h.target)
	if err == nil {
		h.one(ctx, due, conn, true)
		_ = conn.Close()
	}
}

// one sends a request when it is due, or at once if that has passed.
func (h *honest) one(ctx context.Context, due time.Time, conn *grpc.ClientConn, visit bool) {
	time.Sleep(time.Until(due))
	ctx, cancel := context.WithTimeout(ctx, honestDeadline)
	defer cancel()
	_, err := weftv1.NewPredictionServiceClient(conn).Predict(ctx, policyRequest())
	ms := float64(time.Since(due)) / float64(time.Millisecond)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fared.Sent++
	switch {
	case err != nil:
		h.fared.Lost++
		if len(h.fared.Errors) < 3 {
			h.fared.Errors = append(h.fared.Errors, err.Error())
		}
	case visit:
		h.fared.Visits = append(h.fared.Visits, ms)
	default:
		h.fared.Ms = append(h.fared.Ms, ms)
	}
}
