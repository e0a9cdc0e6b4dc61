package worker_test

import (
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/engine"
)

// TestAnOpeningThatKillsBesideOthers: a model that can be opened by itself, but ends processes where another one is, is
// opened again with pauses after some deaths. The other is served meanwhile.
func TestAnOpeningThatKillsBesideOthers(t *testing.T) {
	p, log := newPool(t)
	f, other := openFiled(t, p, "cpu", model{}), open(t, p)
	f.write(t, unsociable)
	crash := func() {
		crashes(t, other)
	}
	crash()
	var err error
	weftest.Until(t, "a pause", func() bool {
		if _, err = run(t.Context(), f.Opened, 4); err == nil {
			crash() // it was opened before the other was
		}
		return engine.KindOf(err) == engine.NotOpen
	})
	const said = " processes of cpu in a row died while it was being opened there, although it can be opened by itself"
	if !strings.Contains(err.Error(), said) || !strings.Contains(err.Error(), "SIGFPE") {
		t.Errorf("got %v, want %q", err, said)
	}
	answers(t, other, 8, "the other one meanwhile")
	f.write(t, 0)
	deaths := len(log.Event("worker_died"))
	weftest.Until(t, "another attempt", func() bool {
		got, err := run(t.Context(), f.Opened, 4)
		return err == nil && got[0] == 12
	})
	if now := len(log.Event("worker_died")); now > deaths+1 { // of an attempt that was under way
		t.Errorf("%d deaths, and %d in the end", deaths, now)
	}
}
