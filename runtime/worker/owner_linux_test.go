package worker_test

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/worker"
)

// ofOwner is a version's own worker.
var ofOwner = worker.Place{Device: "cpu", Version: "m/1", Alone: true}

// TestTheWorkerOfAnOwner goes with the owner's last session, and another one is there for the next.
func TestTheWorkerOfAnOwner(t *testing.T) {
	p, _ := newPool(t)
	for range 3 {
		var all []engine.Opened
		for range 2 {
			o := openModel(t, p, ofOwner, model{})
			all = append(all, o)
		}
		for i, o := range all {
			answers(t, o, 8, "a run")
			if up, _ := p.Stats(); up["cpu m/1"].IsZero() || len(up) != 1 {
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
	_, err = p.Open(t.Context(), ofOwner, model{}, file, func(context.Context, engine.Opened) error {
		f.write(t, unlucky)
		return nil
	})
	if engine.KindOf(err) != engine.OutOfMemory {
		t.Errorf("a session that cannot be opened: %v", err)
	}
	if up, deaths := p.Stats(); len(up) != 1 || up["cpu"].IsZero() || len(deaths) != 0 {
		t.Errorf("workers: %v; deaths %v", up, deaths)
	}
	weftest.Until(t, "the end of its process", func() bool { return len(weftest.Children(os.Getpid())) == 2 })
}

// TestADeathNamesWhatRan: the log names the versions whose runs were under way, and no others.
func TestADeathNamesWhatRan(t *testing.T) {
	p, log := newPool(t)
	all := map[string]engine.Opened{}
	for _, version := range []string{"hangs/1", "kills/2", "idle/3"} {
		o := openModel(t, p, worker.Place{Device: "cpu", Version: version}, model{})
		all[version] = o
		if _, err := run(t.Context(), o, 4); err != nil {
			t.Error(err)
		}
	}
	ended := make(chan error)
	go func() {
		_, err := run(t.Context(), all["hangs/1"], hanging)
		ended <- err
	}()
	weftest.Until(t, "a run that hangs", func() bool { return len(worker.Running(all["hangs/1"].Session)) == 1 })
	crashes(t, all["kills/2"])
	if err := <-ended; engine.KindOf(err) != engine.Crashed {
		t.Errorf("a run beside a crash: %v", err)
	}
	if _, err := run(t.Context(), all["idle/3"], 4); err != nil { // by then it is logged
		t.Error(err)
	}
	died := log.Event("worker_died")
	if len(died) != 1 {
		t.Fatalf("it died %d times", len(died))
	}
	if ran, _ := weftest.Attr(died[0], "running").Any().([]string); !slices.Equal(ran, []string{"hangs/1", "kills/2"}) {
		t.Errorf("the log says that these ran: %v", ran)
	}
}
