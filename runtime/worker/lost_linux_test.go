package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/weftserve/weft/runtime/engine"
)

// TestALostDevice: once a run, or the driver, says that a device is lost, nothing runs in its process any more. What is
// opened there later is in another one. Other devices do not notice.
func TestALostDevice(t *testing.T) {
	p, _ := newPool(t)
	onGPU := func() engine.Opened {
		o := openModel(t, p, on("cuda:0"), model{On: "cuda:0"})
		return o
	}
	other := openModel(t, p, on("cuda:1"), model{})
	for _, lose := range []func(o engine.Opened) error{
		func(o engine.Opened) error {
			_, err := run(t.Context(), o, losing)
			return err
		},
		func(o engine.Opened) error {
			p.Lose("cuda:0", errors.New("it fell off the bus"))
			_, err := run(t.Context(), o, 1)
			return err
		},
	} {
		o, version := onGPU(), onGPU()
		for range 2 { // later runs fail alike
			if err := lose(o); engine.KindOf(err) != engine.DeviceLost {
				t.Errorf("a lost device: %v", err)
			}
			if _, err := run(t.Context(), version, 1); engine.KindOf(err) != engine.DeviceLost {
				t.Errorf("another session on a lost device: %v", err)
			}
		}
		if err := o.Session.Close(); err != nil {
			t.Error(err)
		}
		answers(t, onGPU(), 8, "opened after the loss")
	}
	answers(t, other, 8, "on another device")
}

// TestTheProcessorIsNotLost: a worker of the processor that says so has failed in a run, or to open a model. The others
// go on there.
func TestTheProcessorIsNotLost(t *testing.T) {
	p, log := newPool(t)
	o := open(t, p)
	quarantined := o
	quarantined.Session = o.Quarantine
	for _, where := range []engine.Opened{o, quarantined} {
		if _, err := run(t.Context(), where, losing); err == nil || engine.KindOf(err) != engine.ModelFailed ||
			err.Error() != "CUDA failure 700" {
			t.Errorf("a run: %v", err)
		}
	}
	for _, m := range []model{{Opens: "loses"}, {}} {
		_, err := p.Open(t.Context(), onCPU, m, nil, func(ctx context.Context, o engine.Opened) error {
			_, err := run(ctx, o, losing)
			return err
		})
		if err == nil || engine.KindOf(err) != engine.ModelFailed {
			t.Errorf("an opening of %+v: %v", m, err)
		}
	}
	survives(t, o, log, 0)
	_, err := p.Open(t.Context(), on("cuda:0"), model{Opens: "loses"}, nil, nil)
	if engine.KindOf(err) != engine.DeviceLost {
		t.Errorf("an opening on a GPU: %v", err)
	}
	if o, err = p.Open(t.Context(), on("cuda:0"), model{On: "cpu"}, nil, nil); err != nil || o.Device != "cpu" {
		t.Fatalf("an opening that falls back: on %q, %v", o.Device, err)
	}
	if _, err := run(t.Context(), o, losing); err == nil || engine.KindOf(err) != engine.ModelFailed {
		t.Errorf("a run of a model that fell back: %v", err)
	}
}

// TestADeviceThatWasNotAskedFor: a worker cannot say that a model is on another device, for others to lose.
func TestADeviceThatWasNotAskedFor(t *testing.T) {
	p, _ := newPool(t)
	_, err := p.Open(t.Context(), on("cuda:0"), model{On: "cuda:1"}, nil, nil)
	if err == nil || !strings.Contains(err.Error(), `on the device "cuda:1", expected "cuda:0" or "cpu"`) {
		t.Errorf("got %v", err)
	}
}

// TestALossInTheNextProcess: a model that cannot be opened again because its device is lost says that.
func TestALossInTheNextProcess(t *testing.T) {
	p, _ := newPool(t)
	o := openFiled(t, p, "cuda:0", model{On: "cuda:0"})
	o.write(t, lost)
	crashes(t, o.Opened)
	if _, err := run(t.Context(), o.Opened, 1); engine.KindOf(err) != engine.DeviceLost {
		t.Errorf("in the next process: %v", err)
	}
}
