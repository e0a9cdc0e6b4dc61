package proof_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/proof"
	"github.com/weftserve/weft/runtime/tensor"
)

// direct runs made-up requests on a session at once, each for a microsecond a row unless the session says how long.
type direct struct {
	session engine.Session
	asCame  int // requests as they came
}

func (d *direct) Run(ctx context.Context, r proof.Request) (a proof.Answer, err error) {
	if r.AsItCame {
		d.asCame++
	}
	var memory tensor.Allocator
	if _, is := d.session.(*weftest.Engine); is {
		memory = heap{}
	}
	b := tensor.NewBatch(len(r.Inputs), len(d.session.Signature().Outputs), memory)
	defer b.Free()
	for i, in := range r.Inputs {
		copy(b.Input(i, in.DType, in.Shape, len(in.Data)), in.Data)
	}
	err = d.session.Run(ctx, b)
	a.Cost = cmp.Or(b.DeviceTime, time.Duration(r.Rows)*time.Microsecond)
	if err != nil {
		return a, &catalog.ModelError{Model: "m", Version: 1, Err: err}
	}
	for _, out := range b.Outputs {
		a.Outputs = append(a.Outputs, out.Clone())
	}
	return a, nil
}

// heap is memory for engines in Go, which costs less to give and take back than the system's.
type heap struct{}

func (heap) Allocate(size int) ([]byte, error) { return make([]byte, size), nil }
func (heap) Free([]byte)                       {}

func (d *direct) Memory() engine.Memory { return engine.Memory{} }

// batching is that of a manifest that names the usual size only.
func batching() *modelrepo.Batching {
	b := modelrepo.Defaults().Batching
	b.MaxBatchSize = 64 // so that measured costs do not choose it
	return &b
}

func prove(t *testing.T, e *weftest.Engine, b *modelrepo.Batching, log *weftest.Log) *proof.Found {
	t.Helper()
	found, err := proveFile(t, e, nil, b, log)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// proveFile proves a session whose model file is the graph; nil: it has none.
func proveFile(
	t *testing.T,
	s engine.Session,
	graph []byte,
	b *modelrepo.Batching,
	log *weftest.Log,
) (*proof.Found, error) {
	t.Helper()
	d, err := proof.Decide(s.Signature().Clone(), b)
	if err != nil {
		return nil, err
	}
	if graph != nil {
		d.Consult(io.NewSectionReader(bytes.NewReader(graph), 0, int64(len(graph))), false)
	}
	found, err := proof.Prove(t.Context(), &direct{session: s},
		&proof.Subject{Model: "m", Version: 1, Device: "dev", Batching: b, Log: slog.New(log)}, d)
	if err == nil {
		err = found.WarmUp(t.Context())
	}
	return found, err
}

// TestPauses: a machine that pauses while one size is measured, whichever, does not make batches smaller.
func TestPauses(t *testing.T) {
	for paused := 2; paused <= 256; paused *= 2 {
		left := 4 // looks at this size, until the pause ends
		e := weftest.OverRows(3, upTo(256, nil))
		answer := e.Answer
		e.Answer = func(b *tensor.Batch) error {
			rows := int(b.Inputs[0].Shape[0])
			b.DeviceTime = 10*time.Millisecond + time.Duration(rows)*200*time.Microsecond
			if rows == paused && left > 0 {
				left--
				b.DeviceTime *= 4
			}
			return answer(b)
		}
		b := modelrepo.Defaults().Batching
		b.Mode = modelrepo.BatchOn
		if v := prove(t, e, &b, &weftest.Log{}).Verdict; v.Useful != 256 {
			t.Errorf("a pause at %d rows: %d are useful, want 256: %s", paused, v.Useful, v.Reason)
		}
	}
}

// upTo fails on more rows than so many.
func upTo(most int, err error) func(rows [][]float32) error {
	return func(rows [][]float32) error {
		if len(rows) > most {
			return err
		}
		return nil
	}
}

// TestATrustedSizeThatFailsIsLogged: with the version that it is of.
func TestATrustedSizeThatFailsIsLogged(t *testing.T) {
	b, log := batching(), &weftest.Log{}
	b.Mode = modelrepo.BatchOn
	if v := prove(t, weftest.OverRows(3, upTo(4, errors.New("too many"))), b, log).Verdict; !v.Batched ||
		v.Most != b.MaxBatchSize {
		t.Errorf("what is trusted is batched %v, up to %d rows: %s", v.Batched, v.Most, v.Reason)
	}
	isOne := func(r slog.Record) (is bool) {
		r.Attrs(func(a slog.Attr) bool {
			is = a.Equal(slog.String("event", "batch_size_failed"))
			return false
		})
		return is
	}
	if records := log.Records(); len(records) != 1 || !isOne(records[0]) {
		t.Errorf("logged %v", log.Records())
	}
}

// scaled is x [?, 1], by [] → y [?, 1]: x times by, or with meet the sum of all rows where by is negative.
func scaled(meet bool) *weftest.Engine {
	e := weftest.PerRow(1, weftest.Double)
	e.Declared.Inputs = append(e.Declared.Inputs, weftest.Spec("by", tensor.Float32))
	e.Answer = func(b *tensor.Batch) error {
		x, by := weftest.Values(b.Inputs[0]), weftest.Values(b.Inputs[1])[0]
		for i := range x {
			x[i] *= by
			if meet && by < 0 {
				x[i] += x[0]
			}
		}
		y := weftest.Floats(b.Inputs[0].Shape, x...)
		copy(b.Output(0, y.DType, y.Shape, len(y.Data)), y.Data)
		return nil
	}
	return e
}

// TestProveValue: a value that requests bring is tried on their rows, which run as they came.
func TestProveValue(t *testing.T) {
	for _, meet := range []bool{false, true} {
		t.Run(fmt.Sprintf("meet=%t", meet), func(t *testing.T) {
			e := scaled(meet)
			s := e.Signature().Clone()
			s.Inputs[0].BatchDim, s.Outputs[0].BatchDim = 0, 0
			inputs := []tensor.Tensor{weftest.Floats(tensor.Shape{3, 1}, 1, 2, 3), weftest.Floats(tensor.Shape{}, -2)}
			value := proof.Value{Signature: s, Most: 8, Brought: s.Inputs[1:]}
			r := &direct{session: e}
			found := value.Prove(t.Context(), r, 1, proof.CopyRows(s, inputs, 3))
			if !found.Shown || (found.Wrong != "") != meet || meet &&
				!strings.Contains(found.Wrong, `what a request brought for "by"`) {
				t.Errorf("found %+v", found)
			}
			if r.asCame == 0 || found.Spent == 0 {
				t.Errorf("%d requests ran as they came, in %v", r.asCame, found.Spent)
			}
		})
	}
}

// TestHowAValueIsProven: in batches no larger than those of requests, and in small ones where rows are run one by one.
// Batches that memory does not suffice for show nothing.
func TestHowAValueIsProven(t *testing.T) {
	for name, c := range map[string]struct {
		value   proof.Value
		full    bool // there is no memory for more than a row
		largest int
		shown   bool
	}{
		"as large as batches":  {proof.Value{Most: 8}, false, 8, true},
		"one by one":           {proof.Value{Most: 1}, false, 3, true},
		"as long as batches":   {proof.Value{Most: 64, Budget: 100 * time.Millisecond}, false, 3, true},
		"with allowed sizes":   {proof.Value{Most: 8, Allowed: []int{1, 4, 8}}, false, 8, true},
		"but not without room": {proof.Value{Most: 8}, true, 8, false},
	} {
		e := perRow(scaled(false), 40*time.Millisecond)
		if answer := e.Answer; c.full {
			e.Answer = func(b *tensor.Batch) error {
				if b.Inputs[0].Shape[0] > 1 {
					return errFull
				}
				return answer(b)
			}
		}
		s := e.Signature().Clone()
		s.Inputs[0].BatchDim, s.Outputs[0].BatchDim = 0, 0
		c.value.Signature, c.value.Brought = s, s.Inputs[1:]
		inputs := []tensor.Tensor{weftest.Floats(tensor.Shape{3, 1}, 1, 2, 3), weftest.Floats(tensor.Shape{}, -2)}
		found := c.value.Prove(t.Context(), &direct{session: e}, 1, proof.CopyRows(s, inputs, 3))
		runs := e.Forget()
		if found.Wrong != "" || found.Shown != c.shown || slices.Max(runs) != c.largest ||
			c.value.Allowed != nil &&
				slices.ContainsFunc(runs, func(n int) bool { return !slices.Contains(c.value.Allowed, n) }) {
			t.Errorf("%s: %+v in runs of %v rows", name, found, runs)
		}
	}
}
