package worker_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/weftserve/weft/runtime/engine"
)

// TestALostDevice: once a run, or the driver, says that a device is lost, nothing runs in its process any more. What is
// opened there later is in another one. Other devices do not notice.
func TestALostDevice(t *testing.T) {
	p, _ := newPool(t)
	other, err := p.Open(t.Context(), "cuda:1", "", model{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, lose := range []func(o engine.Opened) error{
		func(o engine.Opened) error {
			_, err := run(t.Context(), o, losing)
			return err
		},
		func(o engine.Opened) error {
			p.Lose("cpu", errors.New("it fell off the bus"))
			_, err := run(t.Context(), o, 1)
			return err
		},
	} {
		o, version := open(t, p), open(t, p)
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
		if got, err := run(t.Context(), open(t, p), 4); err != nil || !slices.Equal(got, []float32{8}) {
			t.Errorf("opened after the loss: %v, %v", got, err)
		}
	}
	if got, err := run(t.Context(), other, 4); err != nil || !slices.Equal(got, []float32{8}) {
		t.Errorf("on another device: %v, %v", got, err)
	}
}
