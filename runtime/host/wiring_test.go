package host_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/audit"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// What is found about rows is stated where it is found: in runtime/proof, runtime/audit, runtime/execution and
// runtime/serving. These tests show that a host has it done, and publishes it.

// TestAVersionIsProven by its file or by examples, or refused, and published so. One that its manifest does not fit
// fails.
func TestAVersionIsProven(t *testing.T) {
	w := newWorld(t, 1)
	meets := func() *fake {
		return overRows(3, func(rows [][]float32) error {
			rows[0][0] += rows[len(rows)-1][1]
			return nil
		})
	}
	w.addFile("structure", doubling(), perRow(3, double), nil)
	w.addFile("mixing", mixing(), perRow(3, double), nil)
	w.add("examples", 1, perRow(3, double), nil)
	w.add("meeting", 1, meets(), nil)
	w.add("trusted", 1, meets(), trusted)
	misfit := perRow(3, double)
	w.add("misfit", 1, misfit, func(m *modelrepo.Manifest) { m.Batching.Unbatched = []string{"z"} })
	w.load("structure")
	for name, want := range map[string]catalog.Batching{
		"structure": {Batched: true, Proof: catalog.ProofStructure, MaxBatchSize: 64, Reason: "proven harmless by structure: "},
		"mixing":    {Proof: catalog.ProofNone, MaxBatchSize: 1, Reason: "the graph lets rows meet at ReduceMean"},
		"examples":  {Batched: true, Proof: catalog.ProofExamples, MaxBatchSize: 64, Reason: "in batches of 2, 4, 8, 16, 32, 64 "},
		"meeting":   {Proof: catalog.ProofNone, MaxBatchSize: 1, Reason: `output "y" of a row differs by`},
		"trusted":   {Batched: true, Proof: catalog.ProofTrusted, MaxBatchSize: 64, Reason: "mode is on"},
	} {
		v := w.version(name, 1)
		if b := v.Batching; v.State != catalog.Ready || b.Batched != want.Batched || b.Proof != want.Proof ||
			b.MaxBatchSize != want.MaxBatchSize || !strings.Contains(b.Reason, want.Reason) {
			t.Errorf("%s: %v %s, %+v", name, v.State, v.Cause, b)
		}
	}
	const public = `m/1/model.onnx: model.yaml: batching.unbatched: expected names of the model's inputs, which are "x"`
	if v := w.version("misfit", 1); v.State != catalog.Failed || "m"+strings.TrimPrefix(v.Cause, "misfit") != public ||
		!strings.HasPrefix(v.Fault.Error(), v.Path+": model.yaml: ") || misfit.Closed() != 1 {
		t.Errorf("%v %q, %v; closed %d times", v.State, v.Cause, v.Fault, misfit.Closed())
	}
	call := ask(w.version("meeting", 1), 2, 1, 2, 3, 4, 5, 6) // whose rows belong together anyway
	if err := w.Predict(t.Context(), call); err != nil || values(call.Results[0])[0] != 6 || call.Outcome.Executions != 1 {
		t.Errorf("%v, %+v, %v", call.Results, call.Outcome, err)
	}
}

// TestAVersionIsAudited, and what is found is counted, logged and published.
func TestAVersionIsAudited(t *testing.T) {
	const magic = 777 // beside which no example is
	synctest.Test(t, func(t *testing.T) {
		results, compared := map[audit.Result]int{}, 0 // guarded by mu
		var mu sync.Mutex
		w := newWorldOf(t, 1, func(c *host.Config) {
			c.Audited = func(e audit.Event) {
				mu.Lock()
				defer mu.Unlock()
				results[e.Result] += e.Count
			}
			c.Compared = func(audit.Comparison) {
				mu.Lock()
				defer mu.Unlock()
				compared++
			}
		})
		w.add("m", 1, overRows(1, func(rows [][]float32) error {
			time.Sleep(time.Millisecond)
			met := slices.ContainsFunc(rows, func(r []float32) bool { return r[0] == magic })
			for _, r := range rows {
				if r[0] *= 2; met && r[0] != 2*magic {
					r[0]++
				}
			}
			return nil
		}), func(m *modelrepo.Manifest) { m.Batching.Audit = 0.5 })
		w.load("m")
		for proofs := range 2 { // audits watch the version after its second proof, too
			w.edit("m", func(m *modelrepo.Manifest) { m.Batching.MaxBatchSize = 32 << proofs })
			v := w.load("m")
			for n := 0; n < 100 && w.version("m", 1).Batching.Batched; n++ {
				asked(t, w, []*catalog.Call{ask(v, 1, 1), ask(v, 1, magic), ask(v, 1, 3), ask(v, 1, 4)})()
				time.Sleep(10 * time.Second)
			}
		}
		mu.Lock()
		now := w.version("m", 1)
		if l := now.Live(); now.Batching.Batched || l.Different != 2 || int(l.Audited) != compared ||
			results[audit.Different] != 2 ||
			len(w.logs.Event(takenOut)) != 2 ||
			now.Batching.AuditShare != 0.5 ||
			!strings.HasPrefix(now.Batching.Reason, "taken out of batching: an audit of live batches found that output") {
			t.Errorf("%+v, %+v; told %v, shown %d", now.Batching, l, results, compared)
		}
		mu.Unlock()
		if held := w.Auditing(); held != 0 {
			t.Errorf("%d bytes are held for further audits", held)
		}
		w.add("n", 1, overRows(1, func([][]float32) error { time.Sleep(time.Millisecond); return nil }),
			func(m *modelrepo.Manifest) { m.Batching.Audit = 1e-6 })
		v := w.load("n")
		for tries := 0; w.Auditing() == 0 && tries < 1000; tries++ {
			asked(t, w, []*catalog.Call{ask(v, 1, 1), ask(v, 1, 2), ask(v, 1, 3)})()
			time.Sleep(time.Second) // until a row waits for device time
		}
		before := w.Auditing()
		w.listing.Models = w.listing.Models[:1]
		if w.reconcile(); before == 0 || w.Auditing() != 0 {
			t.Errorf("%d bytes are held for audits, and %d of a version that is gone", before, w.Auditing())
		}
	})
}

// TestARequestIsTried in quarantine, through the host; the end is counted.
func TestARequestIsTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, quarantine := crashing()
		ends := map[string]int{}
		w := newWorldOf(t, 1, func(c *host.Config) {
			c.Tried = func(_ string, _ int64, end string) { ends[end]++ }
		})
		w.add("m", 1, f, trusted)
		v := w.load("m")
		for _, value := range []float32{suspect, poison, poison} {
			call := ask(v, 1, value)
			err := w.Predict(t.Context(), call)
			e, is := errors.AsType[*catalog.ModelError](err)
			if crashed := is && e.Crashed && e.Signal == "SIGFPE"; crashed != (value == poison) || !crashed && err != nil {
				t.Errorf("%v: %v", value, err)
			}
		}
		if runs := quarantine.Forget(); len(runs) != 2 || !maps.Equal(ends, map[string]int{"answered": 1, "crashed": 1}) {
			t.Errorf("runs in quarantine: %v, ended %v", runs, ends)
		}
	})
}

var _ engine.Session = (*fake)(nil)
