package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"

	"github.com/weftserve/weft/internal/affinity"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
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
	server  *server
	client  weftv1.PredictionServiceClient // of all episodes
	folder  string
	out     io.Writer
	samples []sample

	mu       sync.Mutex
	probes   []float64 // guarded by mu; ms of /healthz, on a connection of its own each
	lost     []string  // guarded by mu; probes and steps of episodes that were not answered
	steps    int       // guarded by mu; that were
	episodes int       // guarded by mu; that go on
	versions int64     // guarded by mu; the newest
	kills    int       // guarded by mu
}

// sample is what a server holds at a time.
type sample struct{ descriptors, goroutines, versions, server, workers float64 }

// Run soaks a server, and prints what it held.
func (c *soakCommand) Run(ctx context.Context, o output) (err error) {
	cpus, err := affinity.Own()
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "weft-soak")
	if err != nil {
		return err
	}
	s := &soak{soakCommand: c, folder: folder, out: o.out, versions: 1}
	if s.server, err = serve(ctx, c.Weft, folder, cpus, "--watch-interval=1s", "--pprof"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.server.stop()) }()
	policy := "versions: {policy: {latest: 3}}\n"
	if err := os.WriteFile(filepath.Join(folder, "models", policyName, "model.yaml"), []byte(policy), 0o644); err != nil {
		return err
	}
	honest, strikes, err := s.begin(ctx, cpus)
	if err != nil {
		return err
	}
	conn, err := dial(s.server.address)
	if err != nil {
		return err
	}
	defer conn.Close()
	s.client = weftv1.NewPredictionServiceClient(conn)
	ctx, cancel := context.WithTimeout(ctx, c.Span)
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
	var f fared
	err = honest.result(&f)
	for _, strike := range strikes {
		var t tally
		err = errors.Join(err, strike.result(&t))
		fmt.Fprintf(s.out, "%s: %d done, %d connections, %d ended: %s\n", strike.cmd.Args[2], t.Done, t.Dialed, t.Ended,
			counted(t.GoAways))
	}
	return errors.Join(err, s.judge(&f))
}

// begin starts honest callers, and attacks over gRPC.
func (s *soak) begin(ctx context.Context, cpus []int) (honest *child, strikes []*child, err error) {
	for _, name := range []string{"unread-stream", "slow-bodies", "unknown-methods"} {
		strike, err := start(ctx, cpus, affinity.Usual, "strike", name, "--target", s.server.address, "--connections", "4",
			"--rate", "40", "--span", s.Span.String(), "--seed", strconv.FormatUint(s.Seed, 10))
		if err != nil {
			return nil, nil, err
		}
		strikes = append(strikes, strike)
	}
	honest, err = start(ctx, cpus, affinity.Foremost, "honest", "--target", s.server.address,
		"--span", (s.Span - 2*honestDeadline).String())
	if err != nil {
		return nil, nil, err
	}
	<-honest.said
	_, err = honest.in.Write([]byte("go\n"))
	return honest, strikes, err
}

// repeat does something again and again, so often.
func repeat(ctx context.Context, every time.Duration, do func(context.Context)) {
	beats := time.NewTicker(every)
	defer beats.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beats.C:
			do(ctx)
		}
	}
}

// hold keeps a connection of HTTP for as long as the server does: with a body that comes slowly, or an activity that
// nobody reads.
func (s *soak) hold(ctx context.Context, number int) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.server.http)
	if err != nil {
		return
	}
	defer conn.Close()
	text := "POST /v2/models/" + policyName + "/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n"
	if number%2 == 0 {
		text = "GET /live/activity HTTP/1.1\r\nHost: localhost\r\n\r\n"
	}
	_, err = io.WriteString(conn, text)
	const most = 60 // seconds
	for beats := time.NewTicker(time.Second); err == nil && number < 128*most; number += 128 {
		select {
		case <-ctx.Done():
			beats.Stop()
			return
		case <-beats.C:
		}
		if number%2 == 1 {
			_, err = conn.Write([]byte(" "))
		}
	}
}

// swap puts a new version into the place of the oldest, and begins an episode that will not end.
func (s *soak) swap(ctx context.Context) {
	s.mu.Lock()
	s.versions++
	n := s.versions
	s.episodes++
	s.mu.Unlock()
	dir := filepath.Join(s.folder, "models", policyName)
	file, err := os.ReadFile(filepath.Join(dir, strconv.FormatInt(n-1, 10), "model.onnx"))
	next := filepath.Join(s.folder, "next")
	if err == nil {
		err = errors.Join(os.MkdirAll(next, 0o755), os.WriteFile(filepath.Join(next, "model.onnx"), file, 0o644),
			os.Rename(next, filepath.Join(dir, strconv.FormatInt(n, 10))),
			os.RemoveAll(filepath.Join(dir, strconv.FormatInt(n-keptBack, 10))))
	}
	if err != nil {
		s.lose(fmt.Errorf("version %d: %w", n, err))
	}
	go s.episode(ctx, fmt.Sprint("endless ", n))
}

// episode goes on until the soak is over.
func (s *soak) episode(ctx context.Context, id string) {
	repeat(ctx, stepEvery, func(ctx context.Context) {
		q := policyRequest()
		q.EpisodeId = id
		_, err := s.client.Predict(ctx, q)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.lose(fmt.Errorf("%s: %w", id, err))
			return
		}
		s.mu.Lock()
		s.steps++
		s.mu.Unlock()
	})
}

func (s *soak) lose(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = append(s.lost, err.Error())
}

// kill ends the largest worker.
func (s *soak) kill(context.Context) {
	var largest *os.Process
	size := 0
	all, _ := procfs.AllProcs() // none: nobody is killed, which the result says
	for _, p := range all {
		if stat, err := p.Stat(); err == nil && stat.PPID == s.server.pid() && stat.ResidentMemory() > size {
			size = stat.ResidentMemory()
			largest, _ = os.FindProcess(p.PID)
		}
	}
	if largest != nil && largest.Kill() == nil {
		s.mu.Lock()
		s.kills++
		s.mu.Unlock()
	}
}

// get asks for a page on a connection of its own.
func (s *soak) get(ctx context.Context, path string) ([]byte, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.server.http+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	q.Close = true
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return text, err
}

func (s *soak) probe(ctx context.Context) {
	began := time.Now()
	if _, err := s.get(ctx, "/healthz"); err != nil {
		if ctx.Err() == nil {
			s.lose(err)
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probes = append(s.probes, float64(time.Since(began))/float64(time.Millisecond))
}

// sample looks at what the server holds, and prints it.
func (s *soak) sample(ctx context.Context) {
	page, err := s.get(ctx, "/metrics")
	if err != nil {
		if ctx.Err() == nil {
			s.lose(err)
		}
		return
	}
	u := useOf(s.server.pid())
	now := sample{
		goroutines: metric(page, "go_goroutines"), versions: metric(page, `weft_models{state="ready"}`), server: u.server,
		workers: u.workers,
	}
	if p, err := procfs.NewProc(s.server.pid()); err == nil {
		n, _ := p.FileDescriptorsLen() // 0 of one that has ended
		now.descriptors = float64(n)
	}
	s.samples = append(s.samples, now)
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, "%3d: %.0f descriptors, %.0f goroutines, %.0f + %.0f MiB, %.0f versions of %d, %d episodes, "+
		"%d steps, %d kills, %d lost\n", len(s.samples), now.descriptors, now.goroutines, now.server, now.workers,
		now.versions, s.versions, s.episodes, s.steps, s.kills, len(s.lost))
}

// metric returns the value of a series, 0 if there is none.
func metric(page []byte, series string) float64 {
	for line := range strings.Lines(string(page)) {
		if value, is := strings.CutPrefix(line, series+" "); is {
			n, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return n
		}
	}
	return 0
}

// judge prints what was seen, and returns what must not be.
func (s *soak) judge(f *fared) error {
	slices.Sort(s.probes)
	p99 := quantile(s.probes, 0.99)
	fmt.Fprintf(s.out, "%v: /healthz %d times: p50 %.2f, p99 %.2f, max %.2f ms; honest: %d, p99 %.2f ms, lost %d %q; "+
		"of others lost: %d %q\n", s.Span, len(s.probes), quantile(s.probes, 0.5), p99, quantile(s.probes, 1), f.Sent,
		quantile(f.Ms, 0.99), f.Lost, f.Errors, len(s.lost), s.lost[:min(len(s.lost), 5)])
	var wrong []error
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
