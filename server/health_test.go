package server_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/server/servertest/script"
)

// statusesAs returns the health of the server as a whole, "", and of each named model, with the context of the calls.
func statusesAs(ctx context.Context, t *testing.T, h *servertest.House, names ...string) map[string]string {
	t.Helper()
	client := healthgrpc.NewHealthClient(h.Conn)
	got := make(map[string]string)
	for _, name := range append(names, "") {
		resp, err := client.Check(ctx, &healthgrpc.HealthCheckRequest{Service: name})
		if err != nil {
			got[name] = status.Code(err).String()
			continue
		}
		got[name] = resp.GetStatus().String()
	}
	return got
}

// health plays scripts: after each event it says how the server and the models a and b are. Every protocol must say the
// same.
//
//	models a=ready,loading b=failed    the states of the versions 1, 2... of each model: also stalled, and slow, which
//	                                   loads with a proof that takes long; "a/" has its traffic divided
//	late a=ready                       the same, but of a snapshot that is older than the latest
//	retire, drain
type health struct {
	t        *testing.T
	house    *servertest.House
	revision uint64
}

func modelOf(word string) *catalog.Model {
	name, list, _ := strings.Cut(word, "=")
	name, divided := strings.CutSuffix(name, "/")
	m := &catalog.Model{Name: name}
	for state := range strings.SplitSeq(list, ",") {
		v := &catalog.Version{Model: name, Number: int64(len(m.Versions) + 1), State: map[string]catalog.State{
			"ready": catalog.Ready, "stalled": catalog.Ready, "loading": catalog.Loading, "slow": catalog.Loading,
			"unloading": catalog.Unloading, "failed": catalog.Failed,
		}[state]}
		v.Loading = func() catalog.LoadProgress { return catalog.LoadProgress{Slow: state == "slow"} }
		if state == "stalled" {
			v.Stalled = "hangs"
		}
		m.Versions = append(m.Versions, v)
	}
	if divided {
		m.Traffic = &catalog.Traffic{Split: []catalog.Slot{{Version: 1, Weight: 1}, {Version: 2, Weight: 1}}}
	}
	return m
}

func (h *health) event(line string) string {
	words := strings.Fields(line)
	revision := uint64(1)
	switch words[0] {
	case "models":
		h.revision++
		revision = h.revision
	case "retire":
		h.house.Retire()
	case "drain":
		if err := h.house.Drain(h.t.Context()); err != nil {
			return err.Error()
		}
	}
	if words[0] != "drain" && words[0] != "retire" {
		var models []*catalog.Model
		for _, word := range words[1:] {
			models = append(models, modelOf(word))
		}
		h.house.Current.Store(servertest.SnapshotOf(revision, models...))
	}
	h.house.ModelsChanged()
	now := statusesAs(h.t.Context(), h.t, h.house, "a", "b")
	h.agrees("", now[""] == "SERVING", h.house.Health())
	own := statusesAs(h.t.Context(), h.t, h.house, "live", "ready")
	if own["live"] != "SERVING" || own["ready"] != now[""] {
		h.t.Errorf("the services of the server are %v, and the whole is %s", own, now[""])
	}
	for _, name := range []string{"a", "b"} {
		if now[name] != "SERVICE_UNKNOWN" && words[0] != "late" {
			h.agrees(name, now[name] == "SERVING", h.house.ModelHealth(name))
		}
	}
	return fmt.Sprintf("%s: %s; a %s, b %s", h.house.Health(), now[""], now["a"], now["b"])
}

// agrees asks the Open Inference Protocol, by gRPC and by HTTP, whether the server or a model is ready.
func (h *health) agrees(model string, is bool, said string) {
	path, client := "/v2/health/ready", inference.NewGRPCInferenceServiceClient(h.house.Conn)
	var answer interface{ GetReady() bool }
	var err error
	if model == "" {
		answer, err = client.ServerReady(h.t.Context(), &inference.ServerReadyRequest{})
	} else {
		path = "/v2/models/" + model + "/ready"
		answer, err = client.ModelReady(h.t.Context(), &inference.ModelReadyRequest{Name: model})
	}
	w := httptest.NewRecorder()
	h.house.Web().ServeHTTP(w, httptest.NewRequestWithContext(h.t.Context(), http.MethodGet, path, http.NoBody))
	page := w.Code == http.StatusOK
	if err != nil && status.Code(err) != codes.NotFound || answer.GetReady() != is || page != is ||
		page != strings.Contains(w.Body.String(), `"ready":true`) || h.house.Health() != "draining" && (said == "ready") != is {
		h.t.Errorf("%q is ready: %v; gRPC says %v, %v, HTTP %d %s, the page %s", model, is, answer, err, w.Code, w.Body, said)
	}
}

func TestHealth(t *testing.T) {
	script.Play(t, "testdata/health.txt", func(t *testing.T) func(string) string {
		return (&health{t: t, house: servertest.New(t, server.Config{}), revision: 1}).event
	})
}

// TestModelsCalledAsTheServer: the services live and ready are the server's, whatever models are there.
func TestModelsCalledAsTheServer(t *testing.T) {
	h := servertest.New(t, server.Config{})
	want := map[string]string{"": "SERVING", "live": "SERVING", "ready": "SERVING"}
	for revision, models := range [][]*catalog.Model{
		{modelOf("live=failed"), modelOf("ready=failed"), modelOf("a=ready")}, {modelOf("a=ready")},
	} {
		h.Current.Store(servertest.SnapshotOf(uint64(revision+1), models...))
		h.ModelsChanged()
		if got := statusesAs(t.Context(), t, h, "live", "ready"); !maps.Equal(got, want) {
			t.Errorf("with %d models: %v", len(models), got)
		}
		all, err := healthgrpc.NewHealthClient(h.Conn).List(t.Context(), &healthgrpc.HealthListRequest{})
		if got := all.GetStatuses(); err != nil || len(got) != 4 {
			t.Errorf("with %d models the list is %v, %v", len(models), got, err)
		}
	}
}

// TestHealthOfManyModels: the list has all models that are there, however many, and none that was.
func TestHealthOfManyModels(t *testing.T) {
	h := servertest.New(t, server.Config{})
	var many []*catalog.Model
	for i := range 300 {
		many = append(many, modelOf(fmt.Sprintf("m%d=ready", i)))
	}
	for revision, want := range []int{300, 2} {
		h.Current.Store(servertest.SnapshotOf(uint64(revision+1), many[:want]...))
		h.ModelsChanged()
		all, err := healthgrpc.NewHealthClient(h.Conn).List(t.Context(), &healthgrpc.HealthListRequest{})
		if got := all.GetStatuses(); err != nil || len(got) != want+3 ||
			got["m0"].GetStatus() != healthgrpc.HealthCheckResponse_SERVING {
			t.Errorf("of %d models: %d, %v", want, len(got), err)
		}
	}
}
