package weftest

import (
	"context"
	"io"
	"net/http"
	"strings"
)

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
