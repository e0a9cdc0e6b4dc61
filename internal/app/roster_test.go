package app

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// elsewhereOf returns the replicas that an error of a call names; nil: it is another error, or none.
func elsewhereOf(err error) []string {
	st := status.Convert(err)
	for _, d := range st.Details() {
		if d, is := d.(*errdetails.ErrorInfo); is && d.GetReason() == "MODEL_ELSEWHERE" && st.Code() == codes.Unavailable {
			return strings.Split(d.GetMetadata()["replicas"], ",")
		}
	}
	return nil
}

// TestReplicasDivideModels starts servers on one repository. Each answers for its part and names who has the rest, over
// all doors, and follows a roster that changes.
func TestReplicasDivideModels(t *testing.T) {
	repository := t.TempDir()
	var models []string
	for i := range 9 {
		model := fmt.Sprintf("model-%d", i)
		models = append(models, model)
		weftest.AddVersion(t, repository, model, 1)
		weftest.SetManifest(t, repository, model, quick)
	}
	weftest.SetManifest(t, repository, "model-8", quick+"\ncopies: 3")
	names, dir := []string{"weft-0", "weft-1", "weft-2"}, t.TempDir()
	// The last one is not on the roster of the others at first, and each has a file of its own.
	file := func(self string, of []string) string {
		text := "replicas: [{name: " + strings.Join(of, "}, {name: ") + "}]"
		return weftest.WriteFile(t, dir, self+".yaml", []byte(text))
	}
	servers := map[string]*running{}
	for _, self := range names {
		of := names[:2]
		if self == names[2] {
			of = names
		}
		servers[self] = serveFrom(t, repository, func(a *App) {
			a.Roster, a.Self, a.Copies = file(self, of), self, 1
			a.WatchInterval, a.StateDir = config.Duration(100*time.Millisecond), config.StateDirNone
		})
		servers[self].awaitReady(t)
	}
	t.Cleanup(func() { // all together, since each wants nothing to be left of the later ones
		for _, s := range servers {
			s.conn.Close()
			s.admin.Close()
			s.stop()
		}
	})
	answers := func(self, model string) error {
		_, err := weftv1.NewPredictionServiceClient(servers[self].conn).Predict(t.Context(), weftest.Request(model, 1))
		return err
	}
	// holders returns who answers for each model, and whether all others name exactly these.
	holders := func(among []string) (on map[string][]string, agreed bool) {
		t.Helper()
		on, agreed = map[string][]string{}, true
		for _, model := range models {
			told := map[string]bool{}
			for _, self := range among {
				switch err := answers(self, model); {
				case err == nil:
					on[model] = append(on[model], self)
				case elsewhereOf(err) == nil:
					t.Fatalf("%s of %s: %v", model, self, err)
				default:
					told[strings.Join(elsewhereOf(err), ",")] = true
				}
			}
			delete(told, strings.Join(on[model], ","))
			agreed = agreed && len(told) == 0
		}
		return on, agreed
	}
	before, agreed := holders(names[:2])
	if !agreed {
		t.Error("the servers do not agree about who has what")
	}
	for _, model := range models {
		copies := 1
		if model == "model-8" {
			copies = 2 // it wants three, and there are two
		}
		if len(before[model]) != copies {
			t.Errorf("%s is on %v, expected %d", model, before[model], copies)
		}
	}
	// The new one has its part before the others give it up.
	for _, self := range names[:2] {
		file(self, names)
	}
	var after map[string][]string
	weftest.Until(t, "servers that agree about the new roster", func() bool {
		after, agreed = holders(names)
		return agreed
	})
	moved := 0
	for _, model := range models {
		if !slices.Equal(after[model], before[model]) {
			if moved++; !slices.Contains(after[model], "weft-2") {
				t.Errorf("%s moved from %v to %v, neither of which is new", model, before[model], after[model])
			}
		}
	}
	if moved < 2 || moved > 8 {
		t.Errorf("%d models moved", moved)
	}
	// What is not here is said everywhere in the same words.
	for _, model := range models {
		for self, server := range servers {
			if slices.Contains(after[model], self) {
				continue
			}
			got, err := weftv1.NewModelServiceClient(server.conn).GetModel(t.Context(), &weftv1.GetModelRequest{Name: model})
			if want := "not on replica " + self + ", but on " + strings.Join(after[model], ", "); err != nil ||
				!strings.Contains(got.GetModel().GetFailure(), want) {
				t.Errorf("GetModel: %v, %v; expected %q", got, err, want)
			}
			if code, body := server.get(t, "/v2/models/"+model); code != 503 {
				t.Errorf("over HTTP %d %s", code, body)
			}
			health, err := healthgrpc.NewHealthClient(server.conn).Check(t.Context(),
				&healthgrpc.HealthCheckRequest{Service: model})
			if err != nil || health.GetStatus() != healthgrpc.HealthCheckResponse_NOT_SERVING {
				t.Errorf("health of %s on %s: %v, %v", model, self, health, err)
			}
			_, err = weftv1.NewAdminServiceClient(server.admin).LoadVersion(t.Context(),
				&weftv1.LoadVersionRequest{Model: model, Version: 1})
			if !slices.Equal(elsewhereOf(err), after[model]) {
				t.Errorf("LoadVersion: %v", err)
			}
		}
	}
	// A faulty roster changes nothing.
	weftest.WriteFile(t, dir, "weft-0.yaml", []byte("replicas: [{name: somebody}]"))
	weftest.Until(t, "the fault in the log", func() bool {
		return len(servers["weft-0"].warnings.Lines("weft-0 is not on the roster")) > 0
	})
	if again, _ := holders(names); fmt.Sprint(again) != fmt.Sprint(after) {
		t.Errorf("after a faulty roster %v, expected %v", again, after)
	}
}
