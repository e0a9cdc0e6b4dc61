package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weftserve/weft/internal/hostile"
)

const (
	patience = 30 * time.Second // for an answer
	phases   = 20               // what the server holds is looked at after each
	adminOne = 40               // of so many batches one goes to AdminService
)

// fuzzing is one server, and what was sent to it.
type fuzzing struct {
	*options
	server *server
	next   atomic.Int64 // batch
	sent   atomic.Int64 // executions

	mu     sync.Mutex
	status map[string]int // guarded by mu; answers by status
}

// fuzz fuzzes a server, and says what came out.
func (o *options) fuzz(ctx context.Context, out io.Writer) error {
	folder, err := os.MkdirTemp("", "fuzzlive")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := writeModels(filepath.Join(folder, "models")); err != nil {
		return err
	}
	access, err := writeAccess(folder)
	if err != nil {
		return err
	}
	remove, err := share()
	defer remove()
	if err != nil {
		return fmt.Errorf("shared memory: %w", err)
	}
	f := &fuzzing{options: o, status: map[string]int{}}
	var environment []string
	var spans atomic.Int64 // bytes
	if o.Names {
		collector, stop, err := collect(ctx, &spans)
		if err != nil {
			return err
		}
		defer stop()
		environment = traced(collector)
	}
	if f.server, err = serve(ctx, o.Weft, folder, access, environment...); err != nil {
		return err
	}
	fmt.Fprintf(out, "seed %d\n", o.Seed)
	began := time.Now()
	var held []holdings
	send := func() (err error) {
		held, err = f.all(ctx, out)
		return err
	}
	if o.Names {
		err = f.server.withViewers(ctx, send)
	} else {
		err = send()
	}
	took := time.Since(began)
	err = errors.Join(err, f.server.end(), f.server.fault())
	n := float64(f.sent.Load())
	fmt.Fprintf(out, "%.0f executions in %v, %.0f a second, %.0f for each second of a processor (server and caller); "+
		"answers by status: %v\n", n, took.Round(time.Millisecond), n/took.Seconds(), n/processorTime().Seconds(), f.status)
	if err == nil && o.Batch < 0 {
		err = grown(held)
		if o.Names {
			err = errors.Join(err, piled(held))
			if spans.Load() == 0 {
				err = errors.Join(err, errors.New("the server has sent no traces"))
			}
		}
	}
	if err != nil {
		return fmt.Errorf("%w\nseed %d: run again with --seed=%d --executions=%d", err, o.Seed, o.Seed, o.Executions)
	}
	return nil
}

// processorTime is what this process and the ones that it has waited for have taken.
func processorTime() time.Duration {
	var sum time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var used syscall.Rusage
		if syscall.Getrusage(who, &used) == nil {
			sum += time.Duration(used.Utime.Nano() + used.Stime.Nano())
		}
	}
	return sum
}

// all sends all batches, in phases.
func (f *fuzzing) all(ctx context.Context, out io.Writer) (held []holdings, err error) {
	if f.Batch >= 0 {
		return nil, f.batch(ctx, f.Batch)
	}
	for phase := range int64(phases) {
		if err := f.phase(ctx, f.Executions*(phase+1)/phases); err != nil {
			return held, err
		}
		if err := f.server.fault(); err != nil {
			return held, nil //nolint:nilerr // the caller asks for it
		}
		h, err := f.server.hold(ctx)
		if err != nil {
			return held, err
		}
		held = append(held, h)
		if phase < 2 || phase%5 == 4 {
			fmt.Fprintf(out, "after %d executions: %v\n", f.sent.Load(), h)
		}
	}
	return held, nil
}

// phase sends batches on several connections until so many executions were sent altogether.
func (f *fuzzing) phase(ctx context.Context, until int64) error {
	g, ctx := errgroup.WithContext(ctx)
	for range f.Connections {
		g.Go(func() error {
			for f.sent.Load() < until && ctx.Err() == nil {
				number := f.next.Add(1) - 1
				if err := f.batch(ctx, number); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
	}
	return g.Wait()
}

// batch sends one batch, and then asks the server as a caller who means well.
func (f *fuzzing) batch(ctx context.Context, number int64) error {
	b := &batch{number: number, rng: rand.New(rand.NewPCG(f.Seed, uint64(number)))}
	b.admin = f.Admin && !f.Names && number%adminOne == adminOne-1
	b.maker = hostile.Maker{RNG: b.rng, Words: b.words(), Nasty: 0.25}
	address := f.server.GRPC
	if b.admin {
		address = f.server.Admin
	}
	var err error
	if number%webOne == webOne-1 {
		w := &web{b, f.server.HTTP, &http.Client{Transport: &http.Transport{DisableCompression: true}}}
		if f.Names {
			err = newcomer{b}.pages(ctx, w)
		} else {
			err = w.all(ctx)
		}
	} else {
		err = f.on(ctx, address, func(c *hostile.Conn) error {
			b.conn = c
			if f.Names {
				return newcomer{b}.all()
			}
			err := b.calm()
			b.storm()
			return err
		})
	}
	f.sent.Add(b.sent)
	if err == nil {
		err = f.healthy(ctx, b.rng)
	}
	if err != nil {
		return fmt.Errorf("batch %d (--batch=%d): %w", number, number, err)
	}
	return nil
}

// healthy wants the echo to answer.
func (f *fuzzing) healthy(ctx context.Context, rng *rand.Rand) error {
	for range 20 { // while the queue of its model is full
		ok := false
		err := f.on(ctx, f.server.GRPC, func(c *hostile.Conn) error {
			b := &batch{rng: rng, conn: c}
			q := sound(rng, echoModel)
			id := b.begin("/weft.v1.PredictionService/Predict")
			c.Expect(id, &sent{what: "a caller who means well", over: native, exact: q})
			if err := c.Message(id, hostile.Encode(q), true); err != nil {
				return err
			}
			err := c.Settle()
			ok = c.Answered(statusOK)
			return err
		})
		if err != nil || ok {
			return err
		}
	}
	return errors.New("a caller who means well gets no answer")
}

// on connects, has something sent, and says what is wrong with the answers.
func (f *fuzzing) on(ctx context.Context, address string, send func(*hostile.Conn) error) error {
	var faults []error
	c, err := hostile.Dial(ctx, address, patience, func(a *hostile.Answer) {
		if err := judge(a); err != nil && len(faults) < 5 {
			faults = append(faults, err)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.status[a.Status]++
	})
	if err != nil {
		return errors.Join(errEnded, err)
	}
	err = send(c)
	c.Close()
	if f.server.Died() {
		err = errors.Join(errEnded, err)
	}
	return errors.Join(append(faults, err)...)
}
