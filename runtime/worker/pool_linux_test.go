package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
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

// A worker gets no secrets. Its own defaults give way to the server's variables: of two, os/exec passes on the last.
func TestEnvironment(t *testing.T) {
	got := environment([]string{
		"AWS_SECRET_ACCESS_KEY=s", "CUDA_VISIBLE_DEVICES=1", "CUBLAS_WORKSPACE_CONFIG=:4096:1", "PATH=/bin",
	})
	if want := []string{
		"GOTRACEBACK=single", "CUDA_VISIBLE_DEVICES=1", "CUBLAS_WORKSPACE_CONFIG=:4096:1",
	}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if slices.Contains(environment([]string{"GOTRACEBACK=all"}), "GOTRACEBACK=all") {
		t.Error("the traces of all goroutines were asked for")
	}
}
