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

// Tensors are the inputs and outputs of a synthetic model, for its manifest: x of four elements a row, and y of two.
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

// Settled reports whether the server at an HTTP address is ready and, if it shows its metrics, loads nothing any more.
// A server may be ready while versions with a slow proof are still loading, as all are on a busy machine.
func Settled(ctx context.Context, url string) bool {
	defer http.DefaultClient.CloseIdleConnections()
	code, _ := page(ctx, url+"/readyz")
	if code != http.StatusOK {
		return false
	}
	code, metrics := page(ctx, url+"/metrics")
	// A server that does not show its metrics can only be taken at its word.
	return code != http.StatusOK || strings.Contains(metrics, `weft_models{state="loading"} 0`)
}

// page gets a page. The code is 0 if there is no answer.
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

// Until polls until a condition holds, and fails the test if it does not within Patience. Call it from the goroutine of
// the test. what names the condition.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !holds(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, Patience)
		}
	}
}

// Times returns how often a test is to do a thing: short, or as often as the long forms do, which WEFT_LONG=1 asks for;
// WEFT_LONG=50 has them do it 50 times as often.
func Times(short, long int) int {
	if n, err := strconv.Atoi(os.Getenv("WEFT_LONG")); err == nil {
		return n * long
	}
	return short
}

// Long reports whether the long forms of tests are asked for.
func Long() bool { return Times(0, 1) > 0 }
