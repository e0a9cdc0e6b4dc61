package host_test

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// These are behaviours of other servers that docs/MIGRATING.md maps to ours and that no other test of this package
// states.

// behind makes the first call occupy the device until all others wait, and returns when all were answered.
func behind(t *testing.T, w *world, v *valve, first *catalog.Call, others ...*catalog.Call) {
	t.Helper()
	v.closed = true
	var wg sync.WaitGroup
	send := func(c *catalog.Call) {
		wg.Go(func() {
			if err := w.Predict(t.Context(), c); err != nil {
				t.Error(err)
			}
		})
	}
	send(first)
	<-v.entered
	for i, c := range others {
		send(c)
		weftest.Until(t, "queued", func() bool { return w.sched.State().Versions[0].Queued > i })
	}
	ended := make(chan struct{})
	go func() {
		wg.Wait()
		close(ended)
	}()
	for close(v.open); ; {
		select {
		case <-v.entered:
		case <-ended:
			return
		}
	}
}

// TestABatchIsOneRun: requests that waited together are one call of the engine, which sees all of their rows.
func TestABatchIsOneRun(t *testing.T) {
	f := perRow(1, double)
	v := withValve(f)
	w := newWorld(t, 1)
	w.add("m", 1, f, nil)
	version := w.load("m")
	f.Forget()
	calls := []*catalog.Call{ask(version, 1, 1), ask(version, 3, 2, 3, 4), ask(version, 2, 5, 6)}
	behind(t, w, v, ask(version, 1, 0), calls...)
	if diff := cmp.Diff([]int{1, 6}, f.Forget()); diff != "" {
		t.Errorf("rows of runs (-want +got):\n%s", diff)
	}
	for i, want := range [][]float32{{2}, {4, 6, 8}, {10, 12}} {
		if diff := cmp.Diff(want, values(calls[i].Results[0])); diff != "" {
			t.Errorf("call %d (-want +got):\n%s", i, diff)
		}
	}
}

// TestOutputsAskedForDoNotPartRequests: requests share an execution whichever outputs each wants.
func TestOutputsAskedForDoNotPartRequests(t *testing.T) {
	f := shouting()
	v := withValve(f)
	w := newWorld(t, 1)
	w.add("m", 1, f, nil)
	version := w.load("m")
	f.Forget()
	say := func(wanted []int, word string) *catalog.Call {
		return &catalog.Call{
			Version: version, Rows: 1, Inputs: []tensor.Tensor{words(tensor.Shape{1, 2}, word, word)},
			Wanted: wanted,
		}
	}
	all, one, other := say(nil, "a"), say([]int{1}, "b"), say([]int{1, 0}, "c")
	behind(t, w, v, say(nil, "x"), all, one, other)
	if diff := cmp.Diff([]int{1, 3}, f.Forget()); diff != "" {
		t.Errorf("rows of runs (-want +got):\n%s", diff)
	}
	for _, c := range []struct {
		call *catalog.Call
		want [][]string
	}{{all, [][]string{{"Aa", "Aa"}, {"Aa"}}}, {one, [][]string{{"Bb"}}}, {other, [][]string{{"Cc"}, {"Cc", "Cc"}}}} {
		var got [][]string
		for _, r := range c.call.Results {
			got = append(got, texts(r))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestShapesThatDifferAreExecutedApart: where no lengths are configured, requests whose rows differ in shape wait side
// by side and each is answered, in its own shape.
func TestShapesThatDifferAreExecutedApart(t *testing.T) {
	f := eachRow(doubled)
	v := withValve(f)
	w := newWorld(t, 1)
	w.add("m", 1, f, func(m *modelrepo.Manifest) { m.Batching.Mode = modelrepo.BatchOn }) // whose lengths need no proof
	version := w.load("m")
	f.Forget()
	short, long, too := ask(version, 1, 1, 2), ask(version, 1, 3, 4, 5), ask(version, 1, 6, 7)
	behind(t, w, v, ask(version, 1, 0), short, long, too)
	if diff := cmp.Diff([]int{1, 2, 1}, f.Forget()); diff != "" {
		t.Errorf("rows of runs (-want +got):\n%s", diff)
	}
	for _, c := range []struct {
		call *catalog.Call
		want tensor.Tensor
	}{
		{short, floats(tensor.Shape{1, 2}, 2, 4)},
		{long, floats(tensor.Shape{1, 3}, 6, 8, 10)},
		{too, floats(tensor.Shape{1, 2}, 12, 14)},
	} {
		if diff := cmp.Diff([]tensor.Tensor{c.want}, c.call.Results); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestOneResultForTwoRequests: a model that gives fewer rows than it was given answers nobody with another's row. Its
// requests are run one by one.
func TestOneResultForTwoRequests(t *testing.T) {
	broken := false
	f := perRow(1, double)
	run := f.Answer
	f.Answer = func(b *tensor.Batch) error {
		if !broken {
			return run(b)
		}
		y := floats(tensor.Shape{1, 1}, 2*values(b.Inputs[0])[0])
		copy(b.Output(0, y.DType, y.Shape, len(y.Data)), y.Data)
		return nil
	}
	b := newBench(t, f, patient)
	broken = true
	calls := oneRowCalls(2)
	errs, runs := b.together(0, calls)
	if diff := cmp.Diff(all(2, "ok"), outcomes(calls, errs)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{2, 1, 1}, runs); diff != "" {
		t.Errorf("rows of runs (-want +got):\n%s", diff)
	}
}

// TestExamplesOfTheMigrationPage: each model.yaml of docs/MIGRATING.md is read without a fault and reaches the
// scheduler as the page says.
func TestExamplesOfTheMigrationPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/MIGRATING.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []sharedsched.Settings
	for i, block := range strings.Split(string(page), "```yaml\n")[1:] {
		text, _, _ := strings.Cut(block, "```")
		m, err := modelrepo.ReadManifest("docs/MIGRATING.md", []byte(text))
		if err != nil {
			t.Errorf("example %d: %v", i, err)
			continue
		}
		w := newWorld(t, 1)
		w.add("m", 1, perRow(1, double), func(old *modelrepo.Manifest) { *old = m })
		if v := w.load("m"); v.State != catalog.Ready {
			t.Errorf("example %d: %v %s", i, v.State, v.Cause)
			continue
		}
		got = append(got, w.sched.State().Versions[0].Settings)
	}
	base := sharedsched.Settings{
		Batched: true, Adaptive: true, MaxBatchCost: 100 * time.Millisecond, MaxRequestRows: 4096,
		MaxLatency: 10 * time.Second,
	}
	serving, triton := base, base
	serving.MaxBatchSize, serving.AllowedBatchSizes, serving.BatchTimeout = 128, []int{8, 32, 128}, 2*time.Millisecond
	serving.MaxQueue, serving.MaxRequestRows = 1024, 128
	triton.MaxBatchSize, triton.BatchTimeout, triton.MaxQueue, triton.MaxLatency = 8, 100*time.Microsecond, 200,
		500*time.Millisecond
	if diff := cmp.Diff([]sharedsched.Settings{serving, triton}, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}
