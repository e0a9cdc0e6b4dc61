package shell_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/sharedsched"
	"github.com/weftserve/weft/sharedsched/shell"
)

// halfIdle runs batches that use the device for half of their time.
type halfIdle struct{}

func (halfIdle) Execute(*sharedsched.Batch) sharedsched.Report {
	time.Sleep(2 * time.Second)
	return sharedsched.Report{DeviceTime: time.Second}
}

func TestWaitsOfExecutions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := shell.New(sharedsched.Config{Devices: []sharedsched.Device{{Name: "cpu", Lanes: 1}}}, halfIdle{},
			shell.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		f, err := s.AddFlow("a", "cpu", 1)
		if err != nil {
			t.Fatal(err)
		}
		v, err := s.AddVersion("a/1", f, sharedsched.Settings{MaxBatchSize: 1, MaxQueue: 1})
		if err != nil {
			t.Fatal(err)
		}
		if s.Scarce() {
			t.Error("processors are scarce before any execution")
		}
		if _, err := s.Do(t.Context(), v, &sharedsched.Task{Rows: 1}); err != nil {
			t.Fatal(err)
		}
		// A millisecond of it is not counted.
		if got := s.State().Devices[0].Waits; got < 1.99 || got > 2 || !s.Scarce() {
			t.Errorf("after an execution that waited for half of its time: %v, scarce %v; want 2, true", got, s.Scarce())
		}
		time.Sleep(2 * time.Second)
		if s.Scarce() {
			t.Error("processors are scarce two seconds later")
		}
	})
}
