package worker_test

import (
	"context"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/engine"
)

// TestTheWorkerOfAnOwner goes with the owner's last session, and another one is there for the next.
func TestTheWorkerOfAnOwner(t *testing.T) {
	p, _ := newPool(t)
	for range 3 {
		var all []engine.Opened
		for range 2 {
			o, err := p.Open(t.Context(), "cpu", "m/1", model{}, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, o)
		}
		for i, o := range all {
			if got, err := run(t.Context(), o, 4); err != nil || !slices.Equal(got, []float32{8}) {
				t.Errorf("%v, %v", got, err)
			}
			if up, _ := p.Stats(); !up["cpu m/1"] || len(up) != 1 {
				t.Errorf("workers with %d of 2 sessions closed: %v", i, up)
			}
			if err := o.Session.Close(); err != nil {
				t.Error(err)
			}
		}
		if up, deaths := p.Stats(); len(up) != 0 || len(deaths) != 0 {
			t.Errorf("workers without a session: %v; deaths %v", up, deaths)
		}
	}
}

// TestAnOwnerWithoutASession: a worker in which an owner's first session cannot be opened goes, with its process.
func TestAnOwnerWithoutASession(t *testing.T) {
	p, _ := newPool(t)
	f := openFiled(t, p, "cpu", model{})
	file, err := os.Open(f.file.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	_, err = p.Open(t.Context(), "cpu", "m/1", model{}, file, func(context.Context, engine.Opened) error {
		f.write(t, unlucky)
		return nil
	})
	if engine.KindOf(err) != engine.OutOfMemory {
		t.Errorf("a session that cannot be opened: %v", err)
	}
	if up, deaths := p.Stats(); !maps.Equal(up, map[string]bool{"cpu": true}) || len(deaths) != 0 {
		t.Errorf("workers: %v; deaths %v", up, deaths)
	}
	weftest.Until(t, "the end of its process", func() bool { return len(weftest.Children(os.Getpid())) == 2 })
}
