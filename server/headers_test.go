package server_test

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
)

// TestHeadersBesideMessages: metadata that name the model and the episode are what the message says, or the request is
// refused, whatever the protocol. An episode that only they name is that of the request.
func TestHeadersBesideMessages(t *testing.T) {
	long := strings.Repeat("e", 257)
	for name, p := range protocols {
		t.Run(name, func(t *testing.T) {
			h := servertest.New(t, server.Config{})
			h.Current.Store(pair())
			r := rand.New(rand.NewPCG(1, 81))
			pick := func(of ...string) string { return of[r.IntN(len(of))] }
			refused := 0
			for range 150 {
				q := ofPair()
				if p.raw != "tensor_content" { // whose messages have no episode
					q.episode = pick("", "", "e", "robot-7/42")
				}
				var models, episodes []string
				for range r.IntN(3) {
					models = append(models, pick("policy", "policy", "policy", "other"))
				}
				for range r.IntN(3) {
					episodes = append(episodes, pick("e", "e", "robot-7/42", "", long))
				}
				beside := metadata.MD{"weft-model": models, "weft-episode": episodes}
				ctx, wrong, want := metadata.NewOutgoingContext(t.Context(), beside), "", q.episode
				for _, model := range models {
					if model != "policy" {
						wrong = "weft-model"
					}
				}
				for _, episode := range episodes {
					if want == "" {
						want = episode
					}
					if want != episode && episode != "" && wrong == "" {
						wrong = "weft-episode"
					}
				}
				if want == long && wrong == "" {
					wrong = "at most 256 bytes"
				}
				_, err := p.ask(ctx, h, q)
				if wrong == "" {
					events := h.Events()
					if got := events[len(events)-1].Step.Episode; err != nil || got != want {
						t.Fatalf("%q beside %+v: episode %q, %v; want %q", episodes, q.episode, got, err, want)
					}
					continue
				}
				refused++
				page, is := errors.AsType[*httpError](err)
				if !is {
					page = &httpError{text: status.Convert(err).Message()}
				}
				if code := status.Code(err); err == nil || is && page.code != http.StatusBadRequest ||
					!is && code != codes.InvalidArgument || want != long && !strings.Contains(page.text, wrong) {
					t.Fatalf("%q and %q beside %q: %v, want an error about %s", models, episodes, q.episode, err, wrong)
				}
			}
			if refused < 30 || refused > 120 {
				t.Errorf("%d of 150 were refused", refused)
			}
		})
	}
}

// TestMismatchNamesBoth: the error has what the message says and what came beside it.
func TestMismatchNamesBoth(t *testing.T) {
	h := servertest.New(t, server.Config{})
	ask := func(key, value string) string {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/models/policy:predict",
			strings.NewReader(`{"instances": [[1, 2, 3, 4]]}`))
		r.Header.Set(key, value)
		w := httptest.NewRecorder()
		h.Web().ServeHTTP(w, r)
		return strings.TrimSpace(w.Body.String() + w.Header().Get("weft-table"))
	}
	if got := ask("Weft-Episode", "e"); !strings.HasSuffix(got, "}53801e6bc13d8976") {
		t.Error(got)
	}
	for _, c := range [][3]string{
		{"weft-model", "other", `metadata weft-model: expected \"policy\", as the message has it or the header before, ` +
			`or nothing, got \"other\"`},
		{"weft-episode", "\xff", `metadata weft-episode: expected UTF-8, got \"\\xff\"`},
	} {
		if got := ask(c[0], c[1]); !strings.Contains(got, c[2]) {
			t.Errorf("%s, want %s", got, c[2])
		}
	}
}
