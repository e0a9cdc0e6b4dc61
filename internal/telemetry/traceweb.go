package telemetry

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// TraceWeb returns a handler that traces the requests to another one. If nothing is traced it returns that one itself.
// Health checks are not traced.
func (t *Telemetry) TraceWeb(to http.Handler) http.Handler {
	if t.traces == nil {
		return to
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v2/health/") || r.Header.Get("traceparent") == "" && !t.traces.rolled() {
			to.ServeHTTP(w, r)
			return
		}
		t.traces.followed.Add(1)
		defer t.traces.followed.Add(-1)
		c := &call{began: time.Now(), writer: &codeWriter{ResponseWriter: w}}
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		c.web = r.WithContext(context.WithValue(ctx, callKey{}, c))
		// Deferred, so that a handler that panics has a span, too.
		defer func() {
			// Codes are gRPC's elsewhere. Any other than OK marks the span as failed.
			code, why := "OK", ""
			c.writer.code = cmp.Or(c.writer.code, http.StatusOK)
			if c.writer.code >= http.StatusBadRequest {
				code, why = "HTTP", http.StatusText(c.writer.code)
			}
			if c.request != nil {
				c.request.root.SetAttributes(semconv.HTTPResponseStatusCode(c.writer.code))
			}
			t.traces.endCall(ctx, c, time.Now(), code, why)
		}()
		to.ServeHTTP(c.writer, c.web)
	})
}

// codeWriter remembers the status code of an answer; 0 if none was written so far.
type codeWriter struct {
	http.ResponseWriter
	code int
}

// WriteHeader implements http.ResponseWriter.
func (w *codeWriter) WriteHeader(code int) {
	w.code = cmp.Or(w.code, code)
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap lets http.NewResponseController find the writer below.
func (w *codeWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
