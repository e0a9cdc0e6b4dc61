package weftest

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Tensors are those of a synthetic model, for its manifest: an input x of four elements a row, and an output y of two.
const Tensors = `inputs: {x: {dtype: fp32, shape: [-1, 4]}}, outputs: {y: {dtype: fp32, shape: [-1, 2]}}`

// AddVersion adds a version of a synthetic model to a repository.
func AddVersion(t testing.TB, repository, model string, version int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(repository, model, strconv.Itoa(version)), 0o755); err != nil {
		t.Fatal(err)
	}
}

// SetManifest writes a model's manifest.
func SetManifest(t testing.TB, repository, model, manifest string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(repository, model, "model.yaml"), []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Settled reports whether the server whose HTTP address begins with that URL is ready, and loads nothing any more where
// it shows its metrics. A server is ready without the versions whose proof is slow, as each is on a busy machine.
func Settled(ctx context.Context, url string) bool {
	defer http.DefaultClient.CloseIdleConnections()
	code, _ := page(ctx, url+"/readyz")
	if code != http.StatusOK {
		return false
	}
	code, metrics := page(ctx, url+"/metrics")
	return code != http.StatusOK || strings.Contains(metrics, `weft_models{state="loading"} 0`)
}

func page(ctx context.Context, url string) (code int, text string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, ""
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, ""
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, ""
	}
	return answer.StatusCode, string(body)
}

// Until polls and returns when a condition holds. It fails the test, whose goroutine must be the caller's, if the
// condition does not hold within Patience; what names the condition.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !holds(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, Patience)
		}
	}
}
