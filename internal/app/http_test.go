package app

import (
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weftserve/weft/internal/telemetry"
)

// TestInferenceWhileStarting: before there is anything to answer, the Open Inference Protocol says so in its own form.
func TestInferenceWhileStarting(t *testing.T) {
	s := &assembly{
		App: &App{}, log: slog.New(slog.DiscardHandler), measured: &telemetry.Telemetry{},
	}
	pages := s.pages(&net.TCPAddr{}, http.NotFoundHandler())
	for _, path := range []string{"/v2", "/v2/health/ready", "/v2/models/x/infer"} {
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		var body struct{ Error string }
		err := json.Unmarshal(w.Body.Bytes(), &body)
		if err != nil || w.Code != http.StatusServiceUnavailable || body.Error == "" ||
			w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %v %s, %v", path, w.Code, w.Header(), w.Body, err)
		}
	}
}
