package host_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelfile"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/serving"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/shell"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a model written in Go.
type fake = weftest.Engine

// world is a host with a real scheduler, over one device, "dev", or several.
type world struct {
	*host.Host
	t       testing.TB
	sched   *shell.Scheduler
	listing modelrepo.Listing
	opening sync.Mutex     // guards engines against loads that are tried again
	engines map[string]any // by path: *fake, or an error or a func that Open shall return or call
	hearing sync.Mutex
	changes []*catalog.Snapshot // guarded by hearing; that the host published
	logs    *weftest.Log
}

func (w *world) hear(s *catalog.Snapshot) {
	w.hearing.Lock()
	defer w.hearing.Unlock()
	w.changes = append(w.changes, s)
}

// published returns what the host published since the last call.
func (w *world) published() []*catalog.Snapshot {
	w.hearing.Lock()
	defer w.hearing.Unlock()
	all := w.changes
	w.changes = nil
	return all
}

func newWorld(t testing.TB, lanes int) *world {
	t.Helper()
	return newWorldOf(t, lanes, func(*host.Config) {})
}

// newWorldOf returns a world whose host has another configuration.
func newWorldOf(t testing.TB, lanes int, change func(*host.Config)) *world {
	t.Helper()
	return newWorldOn(t, lanes, []string{"dev"}, change)
}

// newWorldOn returns a world of several devices.
func newWorldOn(t testing.TB, lanes int, devices []string, change func(*host.Config)) *world {
	t.Helper()
	w := &world{t: t, engines: map[string]any{}, logs: &weftest.Log{}}
	all := map[string]int{}
	for _, name := range devices {
		all[name] = lanes
	}
	cfg := host.Config{
		Read:     w.read,
		Open:     w.open,
		Logger:   slog.New(w.logs),
		Lanes:    all,
		OnChange: w.hear,
	}
	change(&cfg)
	w.Host = host.New(cfg)
	var scheduled []sharedsched.Device
	for _, name := range devices {
		scheduled = append(scheduled, sharedsched.Device{
			Name: name, Class: "fake", Lanes: cfg.Lanes[name], Handover: time.Microsecond, // lanes share its time
		})
	}
	var err error
	w.sched, err = shell.New(sharedsched.Config{Devices: scheduled}, w.Host, shell.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.Attach(w.sched)
	t.Cleanup(func() {
		if err := w.Close(context.Background()); err != nil {
			t.Error(err)
		} else if versions, replicas := w.Known(); versions+replicas > 0 && len(w.Snapshot().Lost) == 0 {
			t.Errorf("closed, and %d versions and %d replicas are remembered", versions, replicas)
		}
		w.sched.Close()
		for path, e := range w.engines {
			if f, is := e.(*fake); is && f.Closed() > 1 {
				t.Errorf("%s was closed %d times", path, f.Closed())
			}
		}
	})
	return w
}

// read reads the model files that there are.
func (w *world) read(ctx context.Context, v modelrepo.Version, told func(done, of int64)) (*modelfile.Files, error) {
	if _, err := os.Stat(v.Path); filepath.Base(v.Path) != modelrepo.ModelFile || os.IsNotExist(err) {
		return nil, nil
	}
	dir := filepath.Dir(v.Path)
	return modelfile.Read(ctx, modelfile.Place{Repository: filepath.Dir(dir), Dir: dir}, told)
}

func (w *world) open(ctx context.Context, v modelrepo.Version, _ *modelfile.Files, _ *modelrepo.Manifest,
	device string, try engine.Try,
) (engine.Opened, error) {
	w.opening.Lock()
	found := w.engines[v.Path]
	w.opening.Unlock()
	switch e := found.(type) {
	case error:
		return engine.Opened{}, e
	case func(context.Context) (engine.Opened, error):
		return e(ctx)
	case func(context.Context, engine.Try) (engine.Opened, error):
		return e(ctx, try)
	case func(device string) (engine.Opened, error):
		return e(device)
	case *fake:
		o := e.Open()
		o.Device, o.Provider = cmp.Or(device, "dev"), "fake"
		return o, nil
	}
	return engine.Opened{}, fmt.Errorf("%s: no such model", v.Path)
}

// engine has further openings of a path give that engine.
func (w *world) engine(path string, engine any) {
	w.opening.Lock()
	defer w.opening.Unlock()
	w.engines[path] = engine
}

// add puts a version into the listing.
func (w *world) add(name string, number int64, engine any, change func(*modelrepo.Manifest)) {
	dir := filepath.Join("/models", name)
	v := modelrepo.Version{Number: number, Dir: filepath.Join(dir, strconv.FormatInt(number, 10))}
	v.Path = filepath.Join(v.Dir, modelrepo.ModelFile)
	v.Fingerprint = "first"
	w.engine(v.Path, engine)
	w.listing.Models = slices.Clone(w.listing.Models) // a host may keep a listing that it was given
	for i := range w.listing.Models {
		if m := &w.listing.Models[i]; m.Name == name {
			m.Versions = append(slices.Clip(m.Versions), v)
			m.Selected = append(slices.Clip(m.Selected), v)
			return
		}
	}
	m := modelrepo.Model{
		Name: name, Dir: dir, Manifest: modelrepo.Defaults(), Versions: []modelrepo.Version{v},
		Selected: []modelrepo.Version{v},
	}
	m.Manifest.Batching.Audit = 0 // for tests that count runs
	if change != nil {
		change(&m.Manifest)
	}
	w.listing.Models = append(w.listing.Models, m)
}

// load loads the listing and returns the published version of name.
func (w *world) load(name string) *catalog.Version {
	w.t.Helper()
	if err := w.Reconcile(w.t.Context(), w.listing); err != nil {
		w.t.Fatal(err)
	}
	return w.version(name, 1)
}

func (w *world) version(name string, number int64) *catalog.Version {
	w.t.Helper()
	m := w.Snapshot().Model(name)
	if m == nil {
		w.t.Fatalf("no model %q in the snapshot", name)
	}
	v := m.Version(number)
	if v == nil {
		w.t.Fatalf("no version %d of %q in the snapshot", number, name)
	}
	return v
}

// flows returns those of the scheduler, but for the one of proofs on each device.
func (w *world) flows() []sharedsched.FlowState {
	return slices.DeleteFunc(w.sched.State().Flows, func(f sharedsched.FlowState) bool {
		return strings.HasSuffix(f.Name, serving.Proofs)
	})
}

// ask makes a call of floats: one input [rows, width].
func ask(v *catalog.Version, rows int, values ...float32) *catalog.Call {
	return &catalog.Call{
		Version: v, Rows: rows,
		Inputs: []tensor.Tensor{floats(tensor.Shape{int64(rows), int64(len(values) / rows)}, values...)},
	}
}

// Short names that many tests are written with.
var (
	floats = weftest.Floats
	values = weftest.Values
	spec   = weftest.Spec
	double = weftest.Double
	perRow = weftest.PerRow
	// overRows changes all rows in place.
	overRows = weftest.OverRows
)

var errNaN = errors.New("a value is not a number")

// doubleUnlessNaN fails on a row with a NaN.
func doubleUnlessNaN(row []float32) error {
	for _, v := range row {
		if v != v {
			return errNaN
		}
	}
	return double(row)
}

// The errors of an engine that say what they mean.
var (
	errLost   = &engine.Error{Kind: engine.DeviceLost, Err: errors.New("the engine lost its device")}
	errMemory = &engine.Error{Kind: engine.OutOfMemory, Err: errors.New("no memory for that")}
)

// addFile is add for a version with a file: an engine written in Go runs it, whatever the file says.
func (w *world) addFile(name string, graph []byte, engine any, change func(*modelrepo.Manifest)) {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), modelrepo.ModelFile)
	if err := os.WriteFile(path, graph, 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.add(name, 1, engine, change)
	m := &w.listing.Models[len(w.listing.Models)-1]
	m.Versions[0].Path, m.Selected[0].Path = path, path
	w.engine(path, engine)
}

// doubling is a graph x [?, 3] → y [?, 3] whose rows are independent; mixing one whose rows are not.
func doubling() []byte {
	g := onnxgraph.New("doubling")
	g.Input("x", onnxgraph.Float, "batch", 3)
	g.Node("Add", []string{"x", "x"}, []string{"y"})
	return g.Output("y", onnxgraph.Float, "batch", 3).Marshal()
}

func mixing() []byte {
	g := onnxgraph.New("mixing")
	g.Input("x", onnxgraph.Float, "batch", 3)
	g.Node("ReduceMean", []string{"x"}, []string{"mean"}, onnxgraph.IntsAttr("axes", 0))
	g.Node("Sub", []string{"x", "mean"}, []string{"y"})
	return g.Output("y", onnxgraph.Float, "batch", 3).Marshal()
}

// request is one with the input x.
func request(rows, count int, in modelrepo.WarmupInput) modelrepo.Warmup {
	return modelrepo.Warmup{BatchSize: rows, Count: count, Inputs: map[string]modelrepo.WarmupInput{"x": in}}
}

// valve makes the runs of a model wait, once it is closed.
type valve struct {
	closed  bool
	entered chan struct{} // a run has begun
	open    chan struct{} // a run may go on
}

func withValve(f *fake) *valve {
	v := &valve{entered: make(chan struct{}), open: make(chan struct{})}
	run := f.Answer
	f.Answer = func(b *tensor.Batch) error {
		if v.closed {
			v.entered <- struct{}{}
			<-v.open
		}
		return run(b)
	}
	return v
}

// expired returns a context that has ended.
func expired(t testing.TB) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
