package serving

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/runtime/fleet"
	"github.com/weftserve/weft/runtime/modelfile"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/residency"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/shell"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served owns one version on one device, in a scheduler. It does what an owner must, and keeps what it hears.
type served struct {
	*Shared
	t     *testing.T
	sched *shell.Scheduler
	logs  weftest.Log
	v     *Version
	c     residency.Candidate
	lives context.Context //nolint:containedctx // it ends when everything is to be unloaded
	end   context.CancelFunc
	going sync.WaitGroup

	mu      sync.Mutex     // guards all that follows
	tries   map[string]int // by how they ended
	crashed []error
	reviews sync.Mutex
}

func (s *served) Find(*catalog.Version) (*Version, bool) { return s.v, false }
func (s *served) Step(string, int64) *catalog.Version    { return nil }
func (s *served) Changed(string) <-chan struct{}         { return nil }
func (s *served) Judged(*Version)                        {}
func (s *served) Lost(*fleet.Device, error, *Version)    {}
func (s *served) Freed(bool)                             {}
func (s *served) Discard(r *Replica)                     { r.Finish(context.Background()) }

func (s *served) Stirred() {
	s.reviews.Lock()
	defer s.reviews.Unlock()
	s.v.Review()
}

func (s *served) Crashed(_ *Version, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.crashed = append(s.crashed, cause)
}

func (s *served) Go(do func(context.Context)) bool {
	s.going.Go(func() { do(s.lives) })
	return true
}

// Execute runs a batch that the scheduler formed.
func (s *served) Execute(b *sharedsched.Batch) sharedsched.Report { return execution.Execute(b) }

// options are those of a served version. The zero value has a manifest that says nothing.
type options struct {
	change  func(*modelrepo.Manifest)
	lanes   int
	timeout time.Duration
	dir     string          // of the version; "": an empty one
	first   *weftest.Engine // is tried before the version is opened; nil: there is no process for that
}

// opened opens a version of the engine, and returns it in any case.
func opened(t *testing.T, e *weftest.Engine, o options) (*served, error) {
	t.Helper()
	s := &served{t: t, tries: map[string]int{}}
	s.lives, s.end = context.WithCancel(context.Background())
	lanes := max(1, o.lanes)
	open := func(ctx context.Context, _ modelrepo.Version, _ *modelfile.Files, _ *modelrepo.Manifest, _ string,
		try engine.Try,
	) (engine.Opened, error) {
		if o.first != nil {
			if err := try(ctx, o.first.Open()); err != nil {
				return engine.Opened{}, err
			}
		}
		opened := e.Open()
		opened.Device, opened.Provider = "dev", "fake"
		return opened, nil
	}
	s.Shared = NewShared(Config{
		Owner: s, Open: open, Fleet: fleet.New(map[string]int{"dev": lanes}, nil), Memory: fleet.NewBudget(0),
		RunTimeout: o.timeout, Log: slog.New(&s.logs),
		Tried: func(_ string, _ int64, end string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.tries[end]++
		},
	})
	var err error
	s.sched, err = shell.New(sharedsched.Config{Devices: []sharedsched.Device{{
		Name: "dev", Class: "fake", Lanes: lanes, Handover: time.Microsecond,
	}}}, s, shell.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.Attach(s.sched)
	m := modelrepo.Defaults()
	m.Batching.Audit = 0
	if o.change != nil {
		o.change(&m)
	}
	s.c = residency.Candidate{
		Model:    "m",
		Version:  modelrepo.Version{Number: 1, Dir: cmp.Or(o.dir, t.TempDir())},
		Manifest: &m,
	}
	s.c.Version.Path = filepath.Join(s.c.Version.Dir, "model.onnx")
	s.v = s.NewVersion(s.c, 1, nil)
	r, err := s.v.Open(t.Context(), s.c, s.Fleet.Get("dev"), 0, func(*fleet.Device) *Replica { return nil })
	if err == nil {
		s.v.Change([]*Replica{r})
	}
	t.Cleanup(func() {
		s.close()
		s.sched.Close()
		if e.Closed() != 1 {
			t.Errorf("the session was closed %d times", e.Closed())
		}
	})
	e.Forget()
	return s, err
}

func (s *served) close() {
	for _, r := range s.v.Replicas() {
		r.Finish(context.Background())
	}
	s.v.Change(nil)
	s.end()
	s.going.Wait()
}

// serve opens a version of the engine.
func serve(t *testing.T, e *weftest.Engine, o options) *served {
	t.Helper()
	s, err := opened(t, e, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// public describes the version.
func (s *served) public() *catalog.Version {
	v := &catalog.Version{Model: "m", Number: 1, MaxLatency: time.Duration(s.c.Manifest.MaxLatency)}
	s.v.Describe(v, s.c.Manifest)
	return v
}

// ask makes a call of rows of one number each.
func (s *served) ask(rows ...float32) *catalog.Call {
	return &catalog.Call{
		Version: s.public(), Rows: len(rows),
		Inputs: []tensor.Tensor{weftest.Floats(tensor.Shape{int64(len(rows)), 1}, rows...)},
	}
}

func (s *served) predict(c *catalog.Call) error { return s.answer(s.t.Context(), c) }

func (s *served) answer(ctx context.Context, c *catalog.Call) error {
	var a Attempt
	a.Begin(s.Shared, c)
	return a.Run(ctx)
}

// begin makes a call in the background, in a bubble.
func (s *served) begin(c *catalog.Call) (ended <-chan error) {
	end := make(chan error, 1)
	go func() { end <- s.predict(c) }()
	synctest.Wait()
	return end
}

// together makes calls that wait behind another one, in a bubble, so that the ones that may share an execution do.
func (s *served) together(calls ...*catalog.Call) (errs []error) {
	hold := s.begin(s.ask(busy))
	ends := make([]<-chan error, len(calls))
	for i, c := range calls {
		ends[i] = s.begin(c)
	}
	for _, end := range ends {
		errs = append(errs, <-end)
	}
	if err := <-hold; err != nil {
		s.t.Errorf("the call before: %v", err)
	}
	return errs
}

// busy is a row that takes a second, where a run takes a millisecond.
const busy = -1

// model doubles rows of one number, each run in its time, unless f makes a run fail.
func model(f func(rows [][]float32) error) *weftest.Engine {
	e := weftest.OverRows(1, func(rows [][]float32) error {
		took := time.Millisecond
		if rows[0][0] == busy {
			took = time.Second
		}
		time.Sleep(took)
		if f != nil {
			if err := f(rows); err != nil {
				return err
			}
		}
		for _, r := range rows {
			r[0] *= 2
		}
		return nil
	})
	return e
}

// The rows of requests that end the engine's process: a suspect where others run, and a poison everywhere.
const (
	suspect = 100
	poison  = 200
)

// killed says that a process died of SIGFPE.
type killed struct{ error }

func (killed) EndedBy() string { return "SIGFPE" }

var (
	errCrash   = &engine.Error{Kind: engine.Crashed, Err: killed{errors.New("SIGFPE")}}
	errStopped = &engine.Error{Kind: engine.Terminated, Err: errors.New("SIGKILL")}
	errFailed  = errors.New("not for me")
)

// crashing is a model with a quarantine.
func crashing() (e, quarantine *weftest.Engine) {
	crash := func(least float32) func([][]float32) error {
		return func(rows [][]float32) error {
			if slices.ContainsFunc(rows, func(r []float32) bool { return r[0] >= least }) {
				return errCrash
			}
			return nil
		}
	}
	e, quarantine = model(crash(suspect)), model(crash(poison))
	e.Opened.Quarantine = quarantine
	return e, quarantine
}

// trusted joins rows without a proof, whose made-up rows would crash.
func trusted(m *modelrepo.Manifest) { m.Batching.Mode = modelrepo.BatchOn }

// few joins up to so many rows of requests of any size.
func few(rows int) func(*modelrepo.Manifest) {
	return func(m *modelrepo.Manifest) {
		trusted(m)
		m.Batching.MaxBatchSize = rows
	}
}

// outcome is how a call ended: "ok", "crashed", "alone" where the model failed on it, or the error.
func outcome(c *catalog.Call, err error) string {
	failed, is := errors.AsType[*catalog.ModelError](err)
	switch {
	case err == nil && slices.EqualFunc(weftest.Values(c.Results[0]), weftest.Values(c.Inputs[0]),
		func(y, x float32) bool { return y == 2*x }):
		return "ok"
	case err == nil:
		return "another answer"
	case is && failed.Crashed && failed.Signal == "SIGFPE":
		return "crashed"
	case is && failed.Model == "m" && failed.Version == 1:
		return "alone"
	}
	return err.Error()
}

func outcomes(calls []*catalog.Call, errs []error) (all []string) {
	for i, c := range calls {
		all = append(all, outcome(c, errs[i]))
	}
	return all
}

// takenOut returns why the version was to be taken out, each time.
func (s *served) takenOut() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.crashed)
}

func (s *served) ends() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.tries)
}

// TestCostsAreInheritedFromTheVersionBefore: of several resident versions, the nearest before; without one, the nearest
// after.
func TestCostsAreInheritedFromTheVersionBefore(t *testing.T) {
	cpu, gpu := &fleet.Device{Name: "cpu"}, &fleet.Device{Name: "cuda:0"}
	var all []*Replica
	for number, on := range map[int64]*fleet.Device{2: cpu, 4: cpu, 5: gpu, 9: cpu} {
		all = append(all, &Replica{Version: &Version{Number: number}, Device: on})
	}
	for number, want := range map[int64]int64{1: 2, 3: 2, 7: 4, 9: 4, 12: 9} {
		got := Nearest(all, number, cpu)
		if got == nil || got.Number != want {
			t.Errorf("version %d inherits from %+v, want version %d", number, got, want)
		}
	}
	if got := Nearest(all, 6, nil); got == nil || got.Number != 5 {
		t.Errorf("version 6 is to be near %+v, want version 5, wherever that is", got)
	}
	if got := Nearest(nil, 1, cpu); got != nil {
		t.Errorf("a new model inherits from version %d", got.Number)
	}
}

// TestWhoIsCharged: the caller where the model's fairness is by identity and a caller is known; but for shadows, which
// the operator asked for, the version.
func TestWhoIsCharged(t *testing.T) {
	known := &catalog.Caller{Name: "tenant", Weight: 3}
	for _, c := range []struct {
		name     string
		fairness modelrepo.Fairness
		call     catalog.Call
		want     string
	}{
		{"by identity", modelrepo.FairIdentity, catalog.Call{Caller: known}, "tenant"},
		{"nobody known", modelrepo.FairIdentity, catalog.Call{}, ""},
		{"a shadow", modelrepo.FairIdentity, catalog.Call{Caller: known, Shadow: true}, ""},
		{"by version", modelrepo.FairVersion, catalog.Call{Caller: known}, ""},
		{"by model", modelrepo.FairModel, catalog.Call{Caller: known}, ""},
	} {
		r := (&closing{}).replica(t, newKeeper(), nil)
		r.flow = r.flowFor(residency.Candidate{Manifest: &modelrepo.Manifest{Fairness: c.fairness}})
		c.call.Version = &catalog.Version{}
		task := r.taskOf(&Attempt{call: &c.call})
		if task.Identity != c.want || (task.Weight == 3) != (c.want != "") {
			t.Errorf("%s: %q of weight %v is charged, want %q", c.name, task.Identity, task.Weight, c.want)
		}
	}
}
