package worker

import (
	"slices"
	"testing"
)

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
