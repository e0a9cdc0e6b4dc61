package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/episode"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/server/servertest/script"
)

// TestHTTP plays testdata/http.txt: "METHOD PATH BODY > CODE ANSWER". Besides policy there are echoes, whose outputs
// are their inputs: words of texts, pair of x, whole numbers, and y, floats, and others named by their shapes.
func TestHTTP(t *testing.T) {
	script.Play(t, "testdata/http.txt", func(t *testing.T) func(string) string {
		ask := asker(t)
		return func(event string) string {
			method, rest, _ := strings.Cut(event, " ")
			path, body, _ := strings.Cut(rest, " ")
			return ask(method, path, body)
		}
	})
}

// asker returns what asks a server of these models over HTTP, and tells "CODE ANSWER".
func asker(t *testing.T, more ...*catalog.Model) func(method, path, body string) string {
	t.Helper()
	h := servertest.New(t, server.Config{Episodes: episode.NewStore(episode.Config{Memory: 1 << 20})})
	policy := h.Current.Load().Models.Get("policy")
	h.Current.Store(servertest.SnapshotOf(2, append(more, policy,
		echo("words", tensor.Spec{Name: "text", DType: tensor.String, Shape: tensor.Shape{tensor.Unknown}}),
		echo("pair", tensor.Spec{Name: "x", DType: tensor.Int64, Shape: tensor.Shape{tensor.Unknown, 2}},
			tensor.Spec{Name: "y", DType: tensor.Float32, Shape: tensor.Shape{tensor.Unknown}}),
		echo("grid", tensor.Spec{Name: "g", DType: tensor.Uint8, Shape: tensor.Shape{tensor.Unknown, 2, 2}}),
		echo("fixed", tensor.Spec{Name: "f", DType: tensor.Float32, Shape: tensor.Shape{1, 3}, BatchDim: tensor.NoBatch}),
		echo("scalar", tensor.Spec{Name: "s", DType: tensor.Float32, Shape: tensor.Shape{}, BatchDim: tensor.NoBatch}),
		echo("huge", tensor.Spec{Name: "h", DType: tensor.Float32, Shape: tensor.Shape{4, 1 << 62}, BatchDim: -1}),
	)...))
	h.Run = func(ctx context.Context, call *catalog.Call) error {
		switch call.Version.Model {
		case "policy":
			return servertest.RunPolicy(ctx, call)
		case "gru":
			if call.Wanted == nil {
				call.Wanted = []int{0, 1}
			}
			runRecurrent(call)
			return nil
		}
		for i := range call.Inputs {
			call.Results = append(call.Results, call.Inputs[i].Clone())
		}
		return nil
	}
	web := h.Web("GET /metrics")
	return func(method, path, body string) string {
		w := httptest.NewRecorder()
		web.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
		return fmt.Sprint(w.Code, " ", strings.TrimSpace(w.Body.String()))
	}
}

// TestOpenAPI: each call of a model that /openapi.json describes is answered, with the example that stands there. That
// of a model whose state the server keeps begins an episode, and brings none of the state.
func TestOpenAPI(t *testing.T) {
	ask := asker(t, &catalog.Model{Name: "gru", Versions: []*catalog.Version{recurrent(1)}})
	var said struct {
		Paths map[string]map[string]struct {
			Body struct {
				Content map[string]struct {
					Example json.RawMessage `json:"example"`
					Schema  struct {
						Required   []string
						Properties map[string]any
					}
				} `json:"content"`
			} `json:"requestBody"`
		} `json:"paths"`
	}
	text, is := strings.CutPrefix(ask("GET", "/openapi.json", ""), "200 ")
	if err := json.Unmarshal([]byte(text), &said); !is || err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	asked := 0
	for path, methods := range said.Paths {
		for method, of := range methods {
			if !strings.Contains(path, "/models/") {
				continue // served elsewhere
			}
			asked++
			body := string(of.Body.Content["application/json"].Example)
			if strings.Contains(path, "huge") && method == "post" {
				continue // an example of it is too large
			}
			if got := ask(strings.ToUpper(method), path, body); !strings.HasPrefix(got, "200 ") {
				t.Errorf("%s %s %s: %s", method, path, body, got)
			}
		}
	}
	const began = `{"parameters":{"sequence_id":"example","sequence_start":true},"seen":[[0,0]],"x":[[0]]}`
	infer := said.Paths["/v2/models/gru/infer"]["post"].Body.Content["application/json"]
	if got := string(infer.Example); got != began {
		t.Errorf("the example of gru: %s", got)
	}
	if got := fmt.Sprint(infer.Schema.Required, len(infer.Schema.Properties)); got != "[x seen] 6" {
		t.Errorf("of gru are required: %s", got)
	}
	if want := 3 * 8; asked != want {
		t.Errorf("%d calls of models, want %d", asked, want)
	}
}

// echo returns a model of one version whose outputs are its inputs.
func echo(name string, specs ...tensor.Spec) *catalog.Model {
	v := servertest.PolicyVersion(1, catalog.Ready)
	v.Model, v.Signature = name, &tensor.Signature{Inputs: specs, Outputs: specs}
	return &catalog.Model{Name: name, Versions: []*catalog.Version{v}}
}
