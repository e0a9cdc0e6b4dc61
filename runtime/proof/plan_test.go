package proof_test

import (
	"log/slog"
	"testing"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/proof"
)

// TestProofTellsHowFarItIs: after each run, and how many there are to be: all of them, but for the sizes that are run
// as long as there is time, once the model is known to take made-up rows.
func TestProofTellsHowFarItIs(t *testing.T) {
	e := weftest.OverRows(3, func([][]float32) error { return nil })
	b := batching()
	b.MaxBatchSize = 4
	d, err := proof.Decide(e.Signature().Clone(), b)
	if err != nil {
		t.Fatal(err)
	}
	var done, of int64
	plans := map[int64]int64{} // by how many runs there had been
	s := &proof.Subject{
		Model: "m", Version: 1, Batching: b, Log: slog.New(&weftest.Log{}),
		Told: func(d, o int64) {
			if d < done || d > done+1 || o < d {
				t.Errorf("%d of %d after %d of %d", d, o, done, of)
			}
			if done, of = d, o; plans[d] == 0 {
				plans[d] = o
			}
		},
	}
	if _, err := proof.Prove(t.Context(), &direct{session: e}, s, d); err != nil {
		t.Fatal(err)
	}
	runs := int64(len(e.Forget()))
	// Eight rows alone; then four batches each of 2 and of 4, and the kinds of rows; then the size 3.
	if done != runs || of != runs || plans[0] != 8 || plans[9] != runs-1 {
		t.Errorf("%d of %d in %d runs; first %d, then %d", done, of, runs, plans[0], plans[9])
	}
}
