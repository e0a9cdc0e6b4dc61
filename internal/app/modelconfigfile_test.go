package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/proto/gen/tensorflow"
	"github.com/weftserve/weft/proto/gen/tensorflow/serving"
)

// elsewhere puts synthetic models at odd paths, and returns these and that of the model config file.
func elsewhere(t *testing.T) (walker, ranker, file string) {
	t.Helper()
	tmp := t.TempDir()
	walker, ranker = filepath.Join(tmp, "exports", "Walker model (new)"), filepath.Join(tmp, "7")
	for _, version := range []int{1, 2, 5} {
		weftest.AddVersion(t, filepath.Dir(walker), filepath.Base(walker), version)
		weftest.AddVersion(t, tmp, "7", version)
	}
	weftest.SetManifest(t, filepath.Dir(walker), filepath.Base(walker),
		quick+"\nversions: {policy: all, labels: {old: 1}}")
	weftest.SetManifest(t, tmp, "7", quick)
	return walker, ranker, filepath.Join(tmp, "models.config")
}

func writeFile(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// available returns the versions of a model that answer, by its status on the wire.
func available(ctx context.Context, r *running, model string) (versions []int64) {
	status, err := serving.NewModelServiceClient(r.conn).GetModelStatus(ctx, &serving.GetModelStatusRequest{
		ModelSpec: &serving.ModelSpec{Name: model},
	})
	if err != nil {
		return nil
	}
	for _, v := range status.GetModelVersionStatus() {
		if v.GetState() == serving.ModelVersionStatus_AVAILABLE {
			versions = append(versions, v.GetVersion())
		}
	}
	slices.Sort(versions)
	return versions
}

// labelled asks the version of a label for one row, and returns its number.
func labelled(ctx context.Context, r *running, model, label string) (int64, error) {
	answer, err := serving.NewPredictionServiceClient(r.conn).Predict(ctx, &serving.PredictRequest{
		ModelSpec: &serving.ModelSpec{
			Name: model, VersionChoice: &serving.ModelSpec_VersionLabel{VersionLabel: label},
		},
		Inputs: map[string]*tensorflow.TensorProto{"x": {
			Dtype: tensorflow.DataType_DT_FLOAT, FloatVal: []float32{1},
			TensorShape: &tensorflow.TensorShapeProto{Dim: []*tensorflow.TensorShapeProto_Dim{{Size: 1}, {Size: 4}}},
		}},
	})
	return answer.GetModelSpec().GetVersion().GetValue(), err
}

// TestModelConfigFile serves models by the file alone: at any path, with the versions and labels that it says, whatever
// model.yaml says of those; and follows it when it changes.
func TestModelConfigFile(t *testing.T) {
	walker, ranker, file := elsewhere(t)
	const head = "model_config_list {\n"
	listWalker := fmt.Sprintf(`config {
		name: "walker" base_path: %q model_platform: "tensorflow"
		model_version_policy { specific { versions: 5 versions: 2 } }
		version_labels { key: "stable" value: 2 }
	}`, walker)
	listRanker := fmt.Sprintf(`config { name: "ranker" base_path: %q }`, ranker)
	writeFile(t, file, head+listWalker+listRanker+"}")
	r := serveFrom(t, "", func(a *App) {
		a.Repositories, a.ModelConfigFile = nil, file
		a.WatchInterval = config.Duration(100 * time.Millisecond)
	})
	r.awaitReady(t)
	ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
	defer cancel()
	are := func(model string, want ...int64) {
		t.Helper()
		weftest.Until(t, fmt.Sprint(model, " has versions ", want), func() bool {
			return slices.Equal(available(ctx, r, model), want)
		})
	}
	are("walker", 2, 5)
	are("ranker", 5)
	if version, err := labelled(ctx, r, "walker", "stable"); err != nil || version != 2 {
		t.Errorf("version %d, %v", version, err)
	}
	if _, err := labelled(ctx, r, "walker", "old"); err == nil || !strings.Contains(err.Error(), `"old"`) {
		t.Errorf("a label of model.yaml: %v", err)
	}

	// A change that is faulty changes nothing, and is told; another one is followed.
	writeFile(t, file, head+"config { nam: 3 }}")
	weftest.Until(t, "the fault is told", func() bool {
		return slices.ContainsFunc(r.warnings.Records(), func(record slog.Record) bool {
			return strings.Contains(weftest.Attr(record, "cause").String(), "models.config:2:10: nam: unknown field")
		})
	})
	are("walker", 2, 5)
	writeFile(t, file, head+strings.Replace(listWalker, "versions: 5", "versions: 1", 1)+"}")
	are("walker", 1, 2)
	weftest.Until(t, "ranker is gone", func() bool { return len(available(ctx, r, "ranker")) == 0 })
	writeFile(t, file, head+strings.Replace(listWalker, walker, ranker, 1)+"}")
	are("walker", 2, 5)
}

// TestModelConfigFileBesideARepository: both are served; what is wrong with one model does not harm the others.
func TestModelConfigFileBesideARepository(t *testing.T) {
	walker, _, file := elsewhere(t)
	repository := t.TempDir()
	weftest.AddVersion(t, repository, "plain", 1)
	weftest.SetManifest(t, repository, "plain", quick)
	saved := filepath.Join(t.TempDir(), "saved")
	weftest.AddVersion(t, filepath.Dir(saved), "saved", 1)
	writeFile(t, filepath.Join(saved, "1", "saved_model.pb"), "graph")
	writeFile(t, file, fmt.Sprintf(`model_config_list: {
  config: [ { name: "walker", base_path: %q }, { name: "saved", base_path: %q } ]
  config { name: "far" base_path: "gs://bucket/far" }
  config { name: "near" base_path: "near" }
  config { name: "gone" base_path: "/nowhere/gone" }
  config { name: "vain" base_path: %q version_labels { key: "a" value: 9 } }
}`, walker, saved, saved+"2"))
	weftest.AddVersion(t, filepath.Dir(saved), "saved2", 1)
	weftest.SetManifest(t, filepath.Dir(saved), "saved2", quick)
	var out, errs strings.Builder
	s := &Settings{Repositories: []string{repository}, Server: config.DefaultServer()}
	s.ModelConfigFile = file
	if err := Check(s, Checking{}, &out, &errs); err == nil {
		t.Error("no fault was found")
	}
	for _, want := range []string{
		"saved_model.pb lies beside it, a model of TensorFlow: export that to ONNX",
		`models.config:3:24: model_config_list.config[2].base_path: Weft reads local files only; mount the storage`,
		`models.config:4:25: model_config_list.config[3].base_path: expected the absolute path of a directory of versions, found "near"`,
		`models.config:5:25: model_config_list.config[4].base_path: expected a directory of versions, found /nowhere/gone: `,
		"versions.labels.a: version 9 does not exist",
	} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("not told: %s", want)
		}
	}
	if t.Failed() {
		t.Log(errs.String())
	}
	r := serveFrom(t, repository, func(a *App) { a.ModelConfigFile = file })
	ctx, cancel := context.WithTimeout(t.Context(), weftest.Patience)
	defer cancel()
	for _, model := range []string{"plain", "walker", "vain"} {
		weftest.Until(t, model+" is ready", func() bool { return len(available(ctx, r, model)) > 0 })
	}
}
