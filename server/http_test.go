package server_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/server/servertest/script"
)

// TestHTTP plays testdata/http.txt: "METHOD PATH BODY > CODE ANSWER". Besides policy there are echoes, whose outputs
// are their inputs: words of texts, pair of x, whole numbers, and y, floats, and grid of [-1,2,2].
func TestHTTP(t *testing.T) {
	script.Play(t, "testdata/http.txt", func(t *testing.T) func(string) string {
		h := servertest.New(t, server.Config{})
		policy := h.Current.Load().Models.Get("policy")
		h.Current.Store(servertest.SnapshotOf(2, policy,
			echo("words", tensor.Spec{Name: "text", DType: tensor.String, Shape: tensor.Shape{tensor.Unknown}}),
			echo("pair", tensor.Spec{Name: "x", DType: tensor.Int64, Shape: tensor.Shape{tensor.Unknown, 2}},
				tensor.Spec{Name: "y", DType: tensor.Float32, Shape: tensor.Shape{tensor.Unknown}}),
			echo("grid", tensor.Spec{Name: "g", DType: tensor.Uint8, Shape: tensor.Shape{tensor.Unknown, 2, 2}}),
		))
		h.Run = func(ctx context.Context, call *catalog.Call) error {
			if call.Version.Model == "policy" {
				return servertest.RunPolicy(ctx, call)
			}
			for i := range call.Inputs {
				call.Results = append(call.Results, call.Inputs[i].Clone())
			}
			return nil
		}
		web := h.Web("GET /metrics")
		return func(event string) string {
			method, rest, _ := strings.Cut(event, " ")
			path, body, _ := strings.Cut(rest, " ")
			w := httptest.NewRecorder()
			web.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
			return fmt.Sprint(w.Code, " ", strings.TrimSpace(w.Body.String()))
		}
	})
}

// echo returns a model of one version whose outputs are its inputs.
func echo(name string, specs ...tensor.Spec) *catalog.Model {
	v := servertest.PolicyVersion(1, catalog.Ready)
	v.Model, v.Signature = name, &tensor.Signature{Inputs: specs, Outputs: specs}
	return &catalog.Model{Name: name, Versions: []*catalog.Version{v}}
}
