package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weftserve/weft/tools/lab/harness"
)

func TestLatePart(t *testing.T) {
	pages := []string{
		"# HELP weft_executions_late_total of all\nweft_executions_ended_total{model=\"a\"} 10\nweft_executions_late_total 1\n",
		"weft_executions_ended_total{model=\"a\"} 15\nweft_executions_ended_total{model=\"b\"} 5\nweft_executions_late_total 3\n",
	}
	page := 0
	metrics := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(pages[page]))
	}))
	defer metrics.Close()
	s := &harness.Server{HTTP: strings.TrimPrefix(metrics.URL, "http://")}
	before, err := s.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	page = 1
	after, err := s.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := latePart(before, after); got != 20 {
		t.Errorf("%.0f %% of the executions were late, want 20", got)
	}
}
