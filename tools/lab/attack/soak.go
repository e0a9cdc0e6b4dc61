package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/tools/lab/affinity"
	"github.com/weftserve/weft/tools/lab/harness"
)

// soakCommand has all that takes something of a server, and gives it back late or never, go on at the same time.
type soakCommand struct {
	Weft string        `default:"bin/weft" type:"existingfile" help:"The Weft program."`
	Span time.Duration `default:"30m" help:"How long it goes on."`
	Seed uint64        `default:"1" help:"Of what attacks draw."`
}

const (
	swapEvery   = 5 * time.Second  // a new version
	keptBack    = 8                // versions on disk
	killEvery   = 25 * time.Second // a worker
	probeEvery  = 50 * time.Millisecond
	sampleEvery = 10 * time.Second
	stepEvery   = 2 * time.Second // of an episode
	mostProbe   = 50              // ms, of the p99
)

// soak is a server that is soaked, and what was seen of it.
type soak struct {
	*soakCommand
	server  *harness.Server
	client  weftv1.PredictionServiceClient // of all episodes
	folder  string
	out     io.Writer
	samples []sample
	endless sync.WaitGroup // episodes

	mu       sync.Mutex
	probes   []float64 // guarded by mu; ms of /healthz, on a connection of its own each
	lost     []string  // guarded by mu; probes and steps of episodes that were not answered
	steps    int       // guarded by mu; that were
	episodes int       // guarded by mu; that go on
	versions int64     // guarded by mu; the newest
	kills    int       // guarded by mu
}

// Run soaks a server, and prints what it held.
func (c *soakCommand) Run(ctx context.Context, o harness.Output) error {
	cpus, err := affinity.Own()
	if err != nil {
		return err
	}
	return harness.InFolder("weft-soak", func(folder string) error { return c.soak(ctx, o, folder, cpus) })
}

func (c *soakCommand) soak(ctx context.Context, o harness.Output, folder string, cpus []int) (err error) {
	s := &soak{soakCommand: c, folder: folder, out: o.Out, versions: 1}
	if s.server, err = serve(ctx, c.Weft, folder, cpus, "--watch-interval=1s", "--pprof"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.server.Stop()) }()
	policy := "versions: {policy: {latest: 3}}\n"
	if err := os.WriteFile(filepath.Join(folder, "models", policyName, "model.yaml"), []byte(policy), 0o644); err != nil {
		return err
	}
	honest, strikes, err := s.begin(ctx, cpus)
	if err != nil {
		return err
	}
	conn, err := dial(s.server.GRPC)
	if err != nil {
		return err
	}
	defer conn.Close()
	s.client = weftv1.NewPredictionServiceClient(conn)
	ctx, cancel := context.WithCancel(ctx) // no deadline: requests would have it, and fail by it
	defer time.AfterFunc(c.Span, cancel).Stop()
	defer cancel()
	var all sync.WaitGroup
	for _, part := range []struct {
		every time.Duration
		do    func(context.Context)
	}{{swapEvery, s.swap}, {killEvery, s.kill}, {probeEvery, s.probe}, {sampleEvery, s.sample}} {
		all.Go(func() { repeat(ctx, part.every, part.do) })
	}
	for i := range 128 {
		all.Go(func() { repeat(ctx, time.Millisecond, func(ctx context.Context) { s.hold(ctx, i) }) })
	}
	all.Wait()
	s.endless.Wait()
	var f fared
	err = honest.result(&f)
	struck := int64(math.MaxInt64) // by the attack that did the least
	for _, strike := range strikes {
		var t tally
		err = errors.Join(err, strike.result(&t))
		struck = min(struck, t.Done)
		fmt.Fprintf(s.out, "%s: %d done, %d connections, %d ended: %s\n", strike.cmd.Args[2], t.Done, t.Dialed, t.Ended,
			counted(t.GoAways))
	}
	return errors.Join(err, s.judge(&f, struck))
}

// begin starts honest callers, and attacks over gRPC.
func (s *soak) begin(ctx context.Context, cpus []int) (honest *child, strikes []*child, err error) {
	for _, name := range []string{"unread-stream", "slow-bodies", "unknown-methods"} {
		strike, err := start(ctx, cpus, affinity.Usual, "strike", name, "--target", s.server.GRPC, "--connections", "4",
			"--rate", "40", "--span", s.Span.String(), "--seed", strconv.FormatUint(s.Seed, 10))
		if err != nil {
			return nil, nil, err
		}
		strikes = append(strikes, strike)
	}
	honest, err = start(ctx, cpus, affinity.Foremost, "honest", "--target", s.server.GRPC,
		"--span", (s.Span - 2*honestDeadline).String())
	if err != nil {
		return nil, nil, err
	}
	<-honest.said
	_, err = honest.in.Write([]byte("go\n"))
	return honest, strikes, err
}

// judge prints what was seen, and returns what must not be.
func (s *soak) judge(f *fared, struck int64) error {
	slices.Sort(s.probes)
	p99 := quantile(s.probes, 0.99)
	fmt.Fprintf(s.out, "%v: /healthz %d times: p50 %.2f, p99 %.2f, max %.2f ms; honest: %d, p99 %.2f ms, lost %d %q; "+
		"of others lost: %d %q\n", s.Span, len(s.probes), quantile(s.probes, 0.5), p99, quantile(s.probes, 1), f.Sent,
		quantile(f.Ms, 0.99), f.Lost, f.Errors, len(s.lost), s.lost[:min(len(s.lost), 5)])
	var wrong []error
	for what, n := range map[string]int64{
		"answers": int64(f.Sent), "strikes": struck, "steps of episodes": int64(s.steps), "versions": s.versions - 1,
		"workers killed": int64(s.kills), "probes": int64(len(s.probes)), "samples": int64(len(s.samples)) / 8,
	} {
		if n <= 0 {
			wrong = append(wrong, fmt.Errorf("there were too few %s, so that nothing is known", what))
		}
	}
	if p99 > mostProbe {
		wrong = append(wrong, fmt.Errorf("/healthz: p99 %.2f ms, want at most %d", p99, mostProbe))
	}
	if f.Lost+len(s.lost) > 0 {
		wrong = append(wrong, errors.New("requests were lost"))
	}
	for _, figure := range []struct {
		name  string
		of    func(sample) float64
		slack float64
	}{
		{"descriptors", func(x sample) float64 { return x.descriptors }, 32},
		{"goroutines", func(x sample) float64 { return x.goroutines }, 100},
		{"MiB", func(x sample) float64 { return x.server + x.workers }, slack},
	} {
		at := func(from, to int) float64 { // the median of some eighths
			var some []float64
			for _, x := range s.samples[len(s.samples)*from/8 : len(s.samples)*to/8] {
				some = append(some, figure.of(x))
			}
			slices.Sort(some)
			return quantile(some, 0.5)
		}
		early, late := at(1, 3), at(6, 8)
		fmt.Fprintf(s.out, "%s: %.0f early, %.0f late\n", figure.name, early, late)
		if late > 1.1*early+figure.slack {
			wrong = append(wrong, fmt.Errorf("%s grow from %.0f to %.0f", figure.name, early, late))
		}
	}
	return errors.Join(wrong...)
}
