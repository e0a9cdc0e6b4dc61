package worker

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// TestClosingBesideAPause: the end does not wait for a pause between attempts to start a process.
func TestClosingBesideAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(Config{
			Library: func() (string, error) { return "", errors.New("there is none") }, Log: slog.New(slog.DiscardHandler),
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w, err := p.worker(Place{Device: "cpu"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.await(ctx); err == nil {
			t.Error("a process without a library")
		}
		time.Sleep(time.Minute) // the pauses have grown
		begin := time.Now()
		p.Close()
		if took := time.Since(begin); took > 0 {
			t.Errorf("it took %v", took)
		}
	})
}
