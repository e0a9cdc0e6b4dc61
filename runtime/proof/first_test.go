package proof_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/proof"
	"github.com/weftserve/weft/runtime/tensor"
)

func first(t *testing.T, e *weftest.Engine, b *modelrepo.Batching) (time.Duration, error) {
	t.Helper()
	d, err := proof.Decide(e.Signature().Clone(), b)
	if err != nil {
		t.Fatal(err)
	}
	return proof.First(t.Context(), &direct{session: e}, &proof.Subject{Version: 1, Batching: b}, d)
}

// TestFirst: the row that is tried first is the first one of the proof.
func TestFirst(t *testing.T) {
	for _, allowed := range [][]int{nil, {4, 8}} {
		b := batching()
		b.AllowedBatchSizes = allowed
		var seen [][]byte
		e := weftest.OverRows(2, func([][]float32) error { return nil })
		answer := e.Answer
		e.Answer = func(b *tensor.Batch) error {
			seen = append(seen, slices.Clone(b.Inputs[0].Data))
			return answer(b)
		}
		took, err := first(t, e, b)
		if err != nil || took != time.Microsecond || len(seen) != 1 {
			t.Errorf("sizes %v: took %v in %d runs, %v", allowed, took, len(seen), err)
		}
		prove(t, e, b, &weftest.Log{})
		if len(seen) < 2 || !slices.Equal(seen[0], seen[1]) {
			t.Errorf("sizes %v: the proof began with another row", allowed)
		}
	}
}

// TestFirstOfMany: rows are made up until the model takes one, or crashes.
func TestFirstOfMany(t *testing.T) {
	failed := errors.New("it is no zero")
	lost := &engine.Error{Kind: engine.DeviceLost, Err: errors.New("CUDA failure 700")}
	crashed := &engine.Error{Kind: engine.Crashed, Err: errors.New("SIGFPE")}
	for name, c := range map[string]struct {
		answer func(rows [][]float32) error
		took   time.Duration
		runs   int
		wrong  error
	}{
		"takes the last kind": {func(rows [][]float32) error {
			if rows[0][0] != 0 {
				return failed
			}
			return nil
		}, time.Microsecond, 4, nil},
		"takes none":       {func([][]float32) error { return failed }, 0, 4, nil},
		"crashes":          {func([][]float32) error { return crashed }, 0, 1, crashed},
		"loses its device": {func([][]float32) error { return lost }, 0, 1, lost},
	} {
		e := weftest.OverRows(1, c.answer)
		took, err := first(t, e, batching())
		_, is := errors.AsType[*catalog.ModelError](err)
		if runs := e.Forget(); took != c.took || len(runs) != c.runs || !errors.Is(err, c.wrong) ||
			is != (c.wrong != nil) {
			t.Errorf("%s: took %v in runs %v, %v", name, took, runs, err)
		}
	}
}

// TestTooLargeForMadeUpRows: a model whose smallest row exceeds the memory of a proof is served without one.
func TestTooLargeForMadeUpRows(t *testing.T) {
	e := weftest.OverRows(1, func([][]float32) error { return nil })
	e.Declared.Inputs[0] = weftest.Spec("x", tensor.Float32, tensor.Unknown, tensor.Unknown, 1<<24)
	if took, err := first(t, e, batching()); took != 0 || err != nil {
		t.Errorf("took %v, %v", took, err)
	}
	if found := prove(t, e, batching(), &weftest.Log{}); found.Verdict.Batched {
		t.Errorf("batched: %s", found.Verdict.Reason)
	}
}

// TestFirstOfAnySize: no row of a terabyte is made up, though a signature asks for one.
func TestFirstOfAnySize(t *testing.T) {
	e := &weftest.Engine{Declared: tensor.Signature{
		Inputs:  []tensor.Spec{weftest.Spec("x", tensor.Float32, tensor.Unknown, 1<<38)},
		Outputs: []tensor.Spec{weftest.Spec("y", tensor.Float32, tensor.Unknown, 1)},
	}}
	if took, err := first(t, e, batching()); took != 0 || err != nil {
		t.Errorf("took %v, %v", took, err)
	}
}
