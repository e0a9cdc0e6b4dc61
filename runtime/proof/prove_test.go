package proof_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// direct runs made-up requests on an engine at once, each for a microsecond a row.
type direct struct {
	engine *weftest.Engine
	asCame int // requests as they came
}

func (d *direct) Run(ctx context.Context, r proof.Request) (a proof.Answer, err error) {
	a.Cost = time.Duration(r.Rows) * time.Microsecond
	if r.AsItCame {
		d.asCame++
	}
	b := tensor.NewBatch(len(r.Inputs), len(d.engine.Declared.Outputs), nil)
	defer b.Free()
	for i, in := range r.Inputs {
		copy(b.Input(i, in.DType, in.Shape, len(in.Data)), in.Data)
	}
	if err := d.engine.Run(ctx, b); err != nil {
		return a, &catalog.ModelError{Model: "m", Version: 1, Err: err}
	}
	for _, out := range b.Outputs {
		a.Outputs = append(a.Outputs, out.Clone())
	}
	return a, nil
}

func (d *direct) Memory() engine.Memory { return engine.Memory{} }

// batching is that of a manifest that says nothing.
func batching() *modelrepo.Batching {
	b := modelrepo.Defaults().Batching
	return &b
}

func prove(t *testing.T, e *weftest.Engine, b *modelrepo.Batching, log *weftest.Log) *proof.Found {
	t.Helper()
	d, err := proof.Decide(e.Signature().Clone(), b)
	if err != nil {
		t.Fatal(err)
	}
	r := &direct{engine: e}
	found, err := proof.Prove(t.Context(), r,
		&proof.Subject{Model: "m", Version: 1, Device: "dev", Batching: b, Log: slog.New(log)}, d)
	if err != nil {
		t.Fatal(err)
	}
	if err := found.WarmUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	return found
}

// sum adds the first value of the first row to the others.
func sum(rows [][]float32) error {
	for _, row := range rows[1:] {
		row[0] += rows[0][0]
	}
	return nil
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

func TestProve(t *testing.T) {
	full := &engine.Error{Kind: engine.OutOfMemory, Err: errors.New("no memory for that")}
	for name, test := range map[string]struct {
		engine  *weftest.Engine
		batched bool
		most    int
		reason  string
	}{
		"rows by themselves": {weftest.PerRow(3, weftest.Double), true, 64, "proven harmless by examples"},
		"rows that meet": {
			weftest.OverRows(3, sum), false, 0,
			"not proven harmless: output \"y\" of a row differs",
		},
		"a batch that fails": {
			weftest.OverRows(3, upTo(4, errors.New("too many"))), false, 0,
			"a batch of 8 rows fails",
		},
		"a batch without room": {
			weftest.OverRows(3, upTo(8, full)), true, 8,
			"the device's memory does not suffice for 16 rows",
		},
		"nothing that it takes": {
			weftest.OverRows(3, upTo(0, errors.New("never"))), false, 0,
			"fails on made-up inputs even for one row",
		},
	} {
		t.Run(name, func(t *testing.T) {
			found := prove(t, test.engine, batching(), &weftest.Log{})
			v := found.Verdict
			if v.Batched != test.batched || test.batched && v.Most != test.most ||
				!strings.Contains(v.Reason, test.reason) {
				t.Errorf("batched %v, up to %d rows: %s\nwant %v, %d: %s", v.Batched, v.Most, v.Reason, test.batched,
					test.most, test.reason)
			}
			if found.Spent <= 0 {
				t.Error("it took no device time")
			}
			if (v.Proof == catalog.ProofExamples) != test.batched {
				t.Errorf("it rests on %q", v.Proof)
			}
		})
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

// TestDecideRefuses: wishes of the manifest that the model cannot meet.
func TestDecideRefuses(t *testing.T) {
	b := batching()
	b.Unbatched = []string{"z"}
	if _, err := proof.Decide(weftest.PerRow(3, weftest.Double).Signature(), b); err == nil ||
		!strings.Contains(err.Error(), `names "z"`) {
		t.Errorf("got %v", err)
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
			r := &direct{engine: e}
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
