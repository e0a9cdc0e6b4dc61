package app

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/internal/onnxgraph"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// brokenManifests are model.yaml files in which something is wrong, each with a word of its own in it.
var brokenManifests = map[string]string{
	"typo":     "wieght: 2 # secret-typo\n",
	"value":    "batching: {mode: secret-value}\n",
	"syntax":   "weight: {secret-syntax\n",
	"range":    "weight: 7234567891234 # secret-range\n",
	"unknown":  "batching:\n  unbatched: [secret-unknown]\n",
	"label":    "versions: {labels: {stable: 7234567891234}, policy: {specific: [7234567891235]}} # secret-label\n",
	"provider": "onnx: {providers: [secret-provider]}\n",
	"device":   "onnx: {providers: [cuda], device: 'cuda:51' } # secret-device\n",
}

// brokenRepository is a repository of models, nearly each with another fault.
func brokenRepository(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "secret root")
	good, err := os.ReadFile("../../examples/models/cartpole/3/model.onnx")
	if err != nil {
		t.Fatal(err)
	}
	put := func(path string, content []byte) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("good/1/model.onnx", good)
	put("good/2/model.onnx", good)
	put("good/model.yaml", []byte("versions: {policy: all} # secret-good\n"))
	for name, manifest := range brokenManifests {
		put(name+"/1/model.onnx", good)
		put(name+"/model.yaml", []byte(manifest))
	}
	put("garbage/1/model.onnx", []byte("this is no model"))
	put("short/1/model.onnx", good[:len(good)/2])
	put("empty/1/model.onnx", nil)
	put("misnamed/1/net.onnx", good)
	put("loose/model.onnx", good)
	put("stray/final/model.onnx", good)
	graph := func() *onnxgraph.Graph {
		return onnxgraph.New("g").Input("x", onnxgraph.Float, "n").Output("y", onnxgraph.Float, 2, "m")
	}
	put("operator/1/model.onnx", graph().Node("NoSuchOperator", []string{"x"}, []string{"y"}).Marshal())
	put("reshape/1/model.onnx",
		graph().InitInt64s("s", []int64{2}, 2, -1).Node("Reshape", []string{"x", "s"}, []string{"y"}).Marshal())
	put("external/1/model.onnx", graph().ExternalInit("w", onnxgraph.Float, []int64{1}, "weights.bin", 0, 4).
		Node("Add", []string{"x", "w"}, []string{"y"}).Marshal())
	put("linked/1/model.onnx", good)
	if err := os.Symlink(filepath.Join(root, "good", "model.yaml"),
		filepath.Join(root, "linked", "model.yaml")); err != nil {
		t.Fatal(err)
	}
	return root
}

// TestCallersAreToldNoPathAndNoLine asks for everything that can fail, over both listeners: no answer holds the path of
// the repository, of the home or of the temporary folder, or the content of a model.yaml.
func TestCallersAreToldNoPathAndNoLine(t *testing.T) {
	root := brokenRepository(t)
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{root, home + "/", os.TempDir() + "/", "secret", "onnxruntime_src", ".cc:", ".h:", "72345678912"}
	r := serveFrom(t, root, nil)
	r.awaitReady(t)
	ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
	defer cancel()
	predict, models, admin := weftv1.NewPredictionServiceClient(r.conn), weftv1.NewModelServiceClient(r.conn),
		weftv1.NewAdminServiceClient(r.admin)

	checked, failed := 0, 0
	check := func(what string, answer proto.Message, err error) {
		t.Helper()
		text := prototext.Format(answer)
		if err != nil {
			failed++
			text = prototext.Format(status.Convert(err).Proto())
		}
		checked++
		for _, secret := range secrets {
			if at := strings.Index(text, secret); at >= 0 {
				t.Errorf("%s: with %q: %.300s", what, secret, text[max(0, at-100):])
			}
		}
		t.Logf("%s: %v", what, err)
	}
	listed, err := models.ListModels(ctx, &weftv1.ListModelsRequest{})
	check("ListModels", listed, err)
	if len(listed.GetModels()) < 15 {
		t.Errorf("%d models", len(listed.GetModels()))
	}
	for _, m := range listed.GetModels() {
		name := m.GetName()
		if failure := m.GetFailure(); failure != "" {
			t.Logf("failure of %s: %s", name, failure)
		}
		for _, v := range m.GetVersions() {
			t.Logf("failure of %s/%d: %s", name, v.GetVersion(), v.GetFailure())
		}
		got, err := models.GetModel(ctx, &weftv1.GetModelRequest{Name: name})
		check("GetModel "+name, got, err)
		metadata, err := predict.GetModelMetadata(ctx,
			&weftv1.GetModelMetadataRequest{Model: &weftv1.ModelSpec{Name: name}})
		check("GetModelMetadata "+name, metadata, err)
		answer, err := predict.Predict(ctx, weftest.Request(name, 1))
		check("Predict "+name, answer, err)
		traffic, err := models.GetTraffic(ctx, &weftv1.GetTrafficRequest{Model: name})
		check("GetTraffic "+name, traffic, err)
		loaded, err := admin.LoadVersion(ctx, &weftv1.LoadVersionRequest{Model: name, Version: 1})
		check("LoadVersion "+name, loaded, err)
		labelled, err := admin.SetLabel(ctx, &weftv1.SetLabelRequest{Model: name, Label: "stable", Version: 1})
		check("SetLabel "+name, labelled, err)
		divided, err := admin.SetTraffic(ctx,
			&weftv1.SetTrafficRequest{
				Model:   name,
				Traffic: &weftv1.Traffic{Split: []*weftv1.TrafficSlot{{Slot: "a", Version: 1, Weight: 1}}},
			})
		check("SetTraffic "+name, divided, err)
		started, err := admin.StartRollout(ctx,
			&weftv1.StartRolloutRequest{Rollout: &weftv1.Rollout{Model: name, BaselineVersion: 1, CandidateVersion: 2}})
		check("StartRollout "+name, started, err)
		unloaded, err := admin.UnloadVersion(ctx, &weftv1.UnloadVersionRequest{Model: name, Version: 1})
		check("UnloadVersion "+name, unloaded, err)
	}
	// ONNX Runtime's error of a run that fails names the file of its own source.
	answer, err := predict.Predict(ctx, &weftv1.PredictRequest{
		Model: &weftv1.ModelSpec{Name: "reshape"},
		Inputs: map[string]*weftv1.Tensor{"x": {
			Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{5}, FloatValues: make([]float32, 5),
		}},
	})
	check("Predict reshape", answer, err)
	if !strings.Contains(fmt.Sprint(err), "Reshape") {
		t.Errorf("a run that fails says %v, want it to name the operator", err)
	}
	state, err := models.GetSchedulerState(ctx, &weftv1.GetSchedulerStateRequest{})
	check("GetSchedulerState", state, err)
	for _, path := range []string{"/readyz", "/healthz", "/metrics", "/nonesuch"} {
		code, body := r.get(t, path)
		for _, secret := range secrets[:4] {
			if strings.Contains(body, secret) {
				t.Errorf("%s answers %d with %q", path, code, secret)
			}
		}
		if path == "/nonesuch" && code != http.StatusNotFound {
			t.Errorf("%s: %d", path, code)
		}
	}
	if checked < 150 || failed < 60 {
		t.Errorf("%d answers were looked at, %d of them errors", checked, failed)
	}
}
