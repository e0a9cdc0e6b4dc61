//go:build linux

package poison

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// Models that end or hold the process that runs them on every row, also on the rows that a load makes up.
const (
	crashesOnAnyRow = "opset 23; x[N,a,1] y[N,c,d]; " +
		"p, q, r = Attention{q_num_heads=0, kv_num_heads=3, is_causal=0}(x, f<1,1,1>[0], y); p, q, r"
	hangsOnAnyRow = `opset 23; x[N,b,c]; LpPool{kernel_shape=[4294967296], auto_pad="SAME_LOWER"}(x)`
	// Its constant part is computed when it is opened.
	opensForEver = `opset 21; x[a]; Add(x, ReduceSum{keepdims=0}(AveragePool{kernel_shape=[4611686018427387904], ` +
		`auto_pad="SAME_LOWER"}(f<3,3,3>[1])))`
)

// TestLoadingHarmsNobody: a version that crashes or hangs on the rows that its load makes up does so where nothing else
// runs. It is served afterwards, each request by itself.
func TestLoadingHarmsNobody(t *testing.T) {
	if testing.Short() {
		t.Skip("it serves models in processes that die")
	}
	together(t)
	s := serve(t, addInnocents(t, innocents), "--run-timeout=1s")
	l := callInnocents(s, 1)
	defer l.stop()
	l.more(5)
	loaded := []poison{
		{sketch: crashesOnAnyRow, name: "crashes"},
		{sketch: crashesOnAnyRow, name: "unbatched"},
		{sketch: hangsOnAnyRow, name: "hangs"},
	}
	for _, p := range loaded {
		manifest := ""
		if p.name == "unbatched" {
			manifest = p.manifest()
		}
		addModel(t, s.repository, p.name, p.sketch, manifest)
	}
	for name, state := range awaitLoads(t, s, l, loaded) {
		if state != weftv1.VersionState_VERSION_STATE_READY {
			t.Errorf("%s is %v", name, state)
		}
	}
	l.more(5)
	l.stop()
	weftest.Until(t, "records of the rows", func() bool { return s.event("made_up_row_crashed") == len(loaded) })
	if died := s.event("worker_died"); died != 0 {
		t.Errorf("the shared worker died %d times", died)
	}
	for _, p := range loaded {
		about := metadata(t, s, p.name)
		if b := about.GetBatching(); b.GetBatched() {
			t.Errorf("%s is batched: %s", p.name, b.GetReason())
		}
		if !slices.ContainsFunc(about.GetSignature().GetNotes(), func(note string) bool {
			return strings.Contains(note, "made-up")
		}) {
			t.Errorf("%s has no note on its made-up row: %q", p.name, about.GetSignature().GetNotes())
		}
	}
}

// metadata returns what the server says of a model.
func metadata(t *testing.T, s *server, model string) *weftv1.GetModelMetadataResponse {
	t.Helper()
	m, err := weftv1.NewPredictionServiceClient(s.conn).GetModelMetadata(t.Context(),
		&weftv1.GetModelMetadataRequest{Model: &weftv1.ModelSpec{Name: model}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestLoadingThatDoesNotEnd: while a made-up row hangs, and while a model is opened for ever, the device serves others,
// and the server can be stopped.
func TestLoadingThatDoesNotEnd(t *testing.T) {
	nightly(t)
	together(t)
	for name, text := range map[string]string{"hangs": hangsOnAnyRow, "opens": opensForEver} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, addInnocents(t, innocents), "--run-timeout=1h")
			l := callInnocents(s, 1)
			defer l.stop()
			l.more(5)
			shared, started := s.serving(), map[int]time.Duration{}
			addModel(t, s.repository, name, text, "")
			weftest.Until(t, "a version that is being loaded", func() bool {
				return stateOf(t, s, name) == weftv1.VersionState_VERSION_STATE_LOADING
			})
			weftest.Until(t, "a process that is busy with it", func() bool { return s.busyApart(shared, started) })
			l.more(20)
			if state := stateOf(t, s, name); state != weftv1.VersionState_VERSION_STATE_LOADING {
				t.Errorf("it is %v", state)
			}
			l.stop()
			if died := s.event("worker_died"); died != 0 {
				t.Errorf("the shared worker died %d times", died)
			}
			s.close() // which fails the test if the server does not end well
			if left := s.workers(); len(left) > 0 {
				t.Errorf("workers are left: %v", left)
			}
		})
	}
}

// serving returns the process that runs the innocents' models: it has their batches mapped.
func (s *server) serving() int {
	s.t.Helper()
	for _, pid := range s.workers() {
		maps, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
		if strings.Contains(string(maps), "/memfd:weft batch") {
			return pid
		}
	}
	s.t.Fatal("no process runs a model")
	return 0
}

// busyApart reports whether a worker other than that one has used much processor time since it was first looked at,
// more than its start takes. seen keeps the times.
func (s *server) busyApart(shared int, seen map[int]time.Duration) bool {
	for _, pid := range s.workers() {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 12 || pid == shared {
			continue
		}
		ticks, _ := strconv.Atoi(fields[11]) // of a hundredth of a second, in user mode
		used := time.Duration(ticks) * 10 * time.Millisecond
		if first, is := seen[pid]; !is {
			seen[pid] = used
		} else if used > first+time.Second {
			return true
		}
	}
	return false
}

// stateOf returns the state of a model's only version; none if there is no such model yet.
func stateOf(t *testing.T, s *server, model string) weftv1.VersionState {
	t.Helper()
	listed, err := weftv1.NewModelServiceClient(s.conn).ListModels(t.Context(), &weftv1.ListModelsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range listed.GetModels() {
		if m.GetName() == model && len(m.GetVersions()) == 1 {
			return m.GetVersions()[0].GetState()
		}
	}
	return weftv1.VersionState_VERSION_STATE_UNSPECIFIED
}
