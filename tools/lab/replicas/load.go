package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/proto/weftclient"
	"github.com/weftserve/weft/sharedsched/arrivals"
)

// call is what became of a call.
type call struct {
	due       time.Time     // when it ought to have been sent
	lag, took time.Duration // how much later it was sent; from due on until its end
	peer      string        // the address that it was sent to last
	err       error
}

// ledger is calls that have ended.
type ledger struct {
	mu    sync.Mutex
	calls []call
}

func (l *ledger) add(c call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, c)
}

func (l *ledger) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls)
}

// failed returns the calls without an answer, and says how often which code was.
func (r *trial) failed(l *ledger) (all []call, said string) {
	codes := map[codes.Code]int{}
	for _, c := range l.calls {
		if c.err != nil {
			all = append(all, c)
			codes[status.Code(c.err)]++
		}
	}
	if len(all) > 0 {
		fmt.Fprintf(r.progress, "the first call that failed: %v\n", all[0].err)
		said = strings.TrimPrefix(fmt.Sprint(codes), "map")
	}
	return all, said
}

// offer has calls begin at random times of a mean rate until done is closed or ctx ends, and waits for their ends.
func offer(ctx context.Context, rate float64, seed uint64, done <-chan struct{}, do func(i int, due time.Time)) {
	rng := rand.New(rand.NewPCG(seed, 0))
	var calls sync.WaitGroup
	defer calls.Wait()
	i := 0
	for from := time.Now(); ; from = from.Add(time.Second) {
		for _, at := range (arrivals.Gamma{Rate: rate}).Times(time.Second, rng, nil) {
			due := from.Add(at)
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case <-time.After(time.Until(due)):
			}
			n := i
			calls.Go(func() { do(n, due) })
			i++
		}
	}
}

// patience is how long a call may take before it counts as lost.
const patience = time.Minute

// request is what all calls ask.
func request(model, episode string) *weftclient.Request {
	return &weftclient.Request{
		Model: weftclient.Model(model), Episode: episode,
		Inputs: weftclient.Tensors{"x": weftclient.FromSlice([]float32{1, 2, 3, 4}, 1, 4)},
	}
}

// unary sends calls by the channels of a pool in turn, and notes them.
func (p *pool) unary(ctx context.Context, model string, l *ledger) func(i int, due time.Time) {
	return func(i int, due time.Time) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		c := call{due: due, lag: time.Since(due)}
		var at peer.Peer
		_, c.err = p.clients[i%len(p.clients)].Predict(ctx, request(model, ""), grpc.Peer(&at))
		if c.took = time.Since(due); at.Addr != nil {
			c.peer = at.Addr.String()
		}
		l.add(c)
	}
}

// line is a stream, and the requests on it that have no answer.
type line struct {
	sends   sync.Mutex // Send is for one goroutine at a time, and may block
	stream  *weftclient.Stream
	mu      sync.Mutex
	waiting map[string]chan error
	twice   int // answers that nobody waited for
	ended   error
}

// lines opens a stream on each channel of a pool. What is asked on them ends in the ledger; end closes them, and counts
// the answers that nobody waited for.
func (p *pool) lines(ctx context.Context, l *ledger, twice *int,
) (do func(i int, due time.Time), end func() error, err error) {
	var readers sync.WaitGroup
	all := make([]*line, len(p.clients))
	for i, client := range p.clients {
		stream, err := client.PredictStream(ctx)
		if err != nil {
			return nil, nil, err
		}
		all[i] = &line{stream: stream, waiting: map[string]chan error{}}
		readers.Go(all[i].read)
	}
	end = func() (err error) {
		for _, s := range all {
			err = errors.Join(err, s.stream.CloseSend())
		}
		readers.Wait()
		for _, s := range all {
			*twice += s.twice
		}
		return err
	}
	return func(i int, due time.Time) {
		c := call{due: due, lag: time.Since(due)}
		c.err = all[i%len(all)].ask(strconv.Itoa(i))
		c.took = time.Since(due)
		l.add(c)
	}, end, nil
}

// ask sends a request, and waits for its answer.
func (s *line) ask(id string) error {
	q := &weftclient.StreamRequest{Request: *request(modelName, "")}
	q.ID = id
	answer := make(chan error, 1)
	s.mu.Lock()
	err := s.ended
	s.waiting[id] = answer
	s.mu.Unlock()
	if err != nil {
		return err
	}
	s.sends.Lock()
	err = s.stream.Send(q)
	s.sends.Unlock()
	if err != nil && !errors.Is(err, io.EOF) { // read says why it ended
		return err
	}
	select {
	case err := <-answer:
		return err
	case <-time.After(patience):
		return status.Error(codes.DeadlineExceeded, "no answer came on the stream")
	}
}

// read takes answers until the stream ends.
func (s *line) read() {
	for {
		answer, err := s.stream.Recv()
		s.mu.Lock()
		if err != nil {
			s.ended = err
			for _, waits := range s.waiting {
				waits <- fmt.Errorf("the stream ended: %w", err)
			}
			s.mu.Unlock()
			return
		}
		if waits := s.waiting[answer.ID]; waits != nil {
			delete(s.waiting, answer.ID)
			waits <- answer.Err
		} else {
			s.twice++
		}
		s.mu.Unlock()
	}
}

// quantile returns a quantile of numbers, which it sorts; 0 of none.
func quantile(values []float64, q float64) float64 {
	slices.Sort(values)
	if len(values) == 0 {
		return 0
	}
	return values[min(len(values)-1, int(q*float64(len(values))))]
}
