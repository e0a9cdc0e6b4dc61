package modelrepo_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// build makes files below dir. A path that ends in "/" is a directory, a content that begins with "-> " makes
// a symbolic link; names are relative to dir.
func build(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		parent := filepath.Dir(path)
		if strings.HasSuffix(name, "/") {
			parent = path
		}
		if err := os.MkdirAll(parent, 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			err = os.Symlink(target, path)
		} else if parent != path {
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// show writes a listing as text, with the temporary directory called TMP.
func show(l modelrepo.Listing, tmp string) string {
	var b strings.Builder
	for _, fault := range l.Faults {
		fmt.Fprintf(&b, "fault: %v\n", fault)
	}
	for _, m := range l.Models {
		fmt.Fprintf(&b, "model %s in %s, manifest %q, selected %s\n", m.Name, m.Dir, m.ManifestPath,
			numbers(m.Selected))
		for _, v := range m.Versions {
			fmt.Fprintf(&b, "  version %d in %s, file %q\n", v.Number, v.Dir, v.Path)
			if v.Err != nil {
				fmt.Fprintf(&b, "    error: %v\n", v.Err)
			}
		}
		for _, note := range slices.Concat(m.Notes, m.Unused) {
			fmt.Fprintf(&b, "  note: %s\n", note)
		}
		if m.Missing != nil {
			fmt.Fprintf(&b, "  missing: %v\n", m.Missing)
		}
		if m.Err != nil {
			fmt.Fprintf(&b, "  error: %v\n", m.Err)
		}
	}
	return strings.ReplaceAll(b.String(), tmp, "TMP")
}

func numbers(versions []modelrepo.Version) string {
	var texts []string
	for _, v := range versions {
		texts = append(texts, strconv.FormatInt(v.Number, 10))
	}
	return "[" + strings.Join(texts, " ") + "]"
}

const synth = "synth: {inputs: {x: {dtype: fp32, shape: [-1]}}, outputs: {y: {dtype: fp32, shape: [-1]}}}\n"

// TestScan holds the whole listing of each repository in testdata/scan/NAME.txt.
func TestScan(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files map[string]string
		repos []string // below TMP; default repo
	}{
		{name: "plain", files: map[string]string{
			"repo/b/1/model.onnx":       "m",
			"repo/a/1/model.onnx":       "m",
			"repo/a/2/model.onnx":       "m",
			"repo/a/10/model.onnx":      "m",
			"repo/a/10/weights.bin":     "external data",
			"repo/a/README.md":          "about the model",
			"repo/b/config.pbtxt":       "max_batch_size: 8",
			"repo/a/.ipynb/x":           "",
			"repo/A.b-c_9/1/model.onnx": "m",
			"repo/README.md":            "stray",
			"repo/.git/config":          "stray",
			"repo/lost+found/":          "",
			"repo/dangling":             "-> nowhere",
		}},
		{name: "loose", files: map[string]string{"repo/policy.onnx": "m"}},
		{name: "formats", files: map[string]string{
			"repo/torch/1/policy.pt":       "m",
			"repo/deep/1/onnx/model.onnx":  "m",
			"repo/other/1/notes.txt":       "m",
			"repo/named/1/policy.onnx":     "m",
			"repo/named/1/a/b/model.onnx":  "m",
			"repo/weights/1/w.safetensors": "m",
		}},
		{name: "policies", files: map[string]string{
			"repo/all/1/model.onnx":     "m",
			"repo/all/3/model.onnx":     "m",
			"repo/all/model.yaml":       "versions: {policy: all, labels: {old: 1}}",
			"repo/two/1/model.onnx":     "m",
			"repo/two/2/model.onnx":     "m",
			"repo/two/3/model.onnx":     "m",
			"repo/two/model.yaml":       "versions: {policy: {latest: 2}}",
			"repo/more/1/model.onnx":    "m",
			"repo/more/model.yaml":      "versions: {policy: {latest: 5}}",
			"repo/some/1/model.onnx":    "m",
			"repo/some/2/model.onnx":    "m",
			"repo/some/3/model.onnx":    "m",
			"repo/some/model.yaml":      "versions: {policy: {specific: [3, 1]}, labels: {stable: 1}}",
			"repo/missing/1/model.onnx": "m",
			"repo/missing/2/model.onnx": "",
			"repo/missing/model.yaml": "# 7 was never there, 2 is empty\nversions:\n  policy: {specific: [1, " +
				"7, 2]}\n  labels: {gone: 9, half: 2}\n",
			"repo/unselected/1/model.onnx": "m",
			"repo/unselected/2/model.onnx": "m",
			"repo/unselected/model.yaml": "versions: {policy: {specific: [2]}, labels: {stable: 1, canary: " +
				"2}}\ntraffic: {split: [{slot: a, version: 1, weight: 1}], shadow: [{version: 7}]}\n",
			"repo/onlymissing/1/model.onnx": "m",
			"repo/onlymissing/model.yaml":   "versions: {policy: {specific: [2]}, labels: {stable: 2}}",
			"repo/invain/1/model.onnx":      "m",
			"repo/invain/2/model.onnx":      "",
			"repo/invain/3/model.onnx":      "m",
			"repo/invain/model.yaml": "# 2 is empty, 9 not there\nversions: {labels: {stable: 2, old: " +
				"1}}\ntraffic: {split: [{slot: a, version: 9, weight: 1}, {slot: b, version: 3, weight: 1}], shadow: " +
				"[{version: 2}]}\n",
			"repo/named/1/model.onnx": "m",
			"repo/named/2/model.onnx": "m",
			"repo/named/3/model.onnx": "m",
			"repo/named/4/model.onnx": "m",
			"repo/named/5/model.onnx": "m",
			"repo/named/model.yaml": "# latest 1, and what is named\nversions: {labels: {stable: " +
				"1}}\ntraffic: {split: [{slot: a, version: 3, weight: 1}], shadow: [{version: 4}]}\n",
			"repo/unselected/1/model.onnx.md": "",
		}},
		{name: "broken", files: map[string]string{
			"repo/good/1/model.onnx":     "m",
			"repo/manifest/1/model.onnx": "m",
			"repo/manifest/model.yaml": "wieght: 2\nbatching: {max_queue: -1}\nversions: {labels: " +
				"{stable: 4}}\n",
			"repo/syntax/1/":                             "",
			"repo/syntax/model.yaml":                     "synth: {\n",
			"repo/noversion/model.yaml":                  "weight: 2",
			"repo/noversion/notes.txt":                   "",
			"repo/both/model.yaml":                       "wieght: 2",
			"repo/strays/v1/model.onnx":                  "m",
			"repo/strays/007/model.onnx":                 "m",
			"repo/strays/0/model.onnx":                   "m",
			"repo/strays/-1/model.onnx":                  "m",
			"repo/strays/9223372036854775808/model.onnx": "m",
			"repo/strays/2":                              "a file",
			"repo/loose/model.onnx":                      "m",
			"repo/looseto/model.onnx":                    "m",
			"repo/looseto/1/model.onnx":                  "m",
			"repo/nofile/1/":                             "",
			"repo/nofile/2/model.onnx":                   "",
			"repo/nofile/3/model.onnx/":                  "",
			"repo/copying/1/model.onnx":                  "m",
			"repo/copying/2/other.bin":                   "still coming",
			"repo/yml/1/model.onnx":                      "m",
			"repo/yml/model.yml":                         "weight: 2",
			"repo/toolong/1/model.onnx":                  "m",
			"repo/toolong/model.yaml":                    strings.Repeat(" ", int(config.MaxSize)) + "weight: 2",
			"repo/yamldir/1/model.onnx":                  "m",
			"repo/yamldir/model.yaml/":                   "",
			"repo/bad name/1/model.onnx":                 "m",
			"repo/_under/1/model.onnx":                   "m",
		}},
		{name: "synthetic", files: map[string]string{
			"repo/s/1/":             "",
			"repo/s/2/anything":     "x",
			"repo/s/model.yaml":     synth + "versions: {policy: all}\n",
			"repo/none/model.yaml":  synth,
			"repo/afile/1":          "",
			"repo/afile/model.yaml": synth,
		}},
		{name: "pipelines", files: map[string]string{
			"repo/eye/1/model.onnx": "m", "repo/eye/3/model.onnx": "m", "repo/eye/4/other": "x",
			"repo/eye/model.yaml":    "versions: {policy: {latest: 1}}\n",
			"repo/hand/7/model.onnx": "m", "repo/s/1/": "", "repo/s/model.yaml": synth,
			"repo/good/2/pipeline.yaml": "steps:\n- {name: see, model: eye, version: 1, inputs: {image: image}}\n" +
				"- {name: act, model: hand, version: 7, inputs: {f: see.f, x: noise.0}, repeat: 10, carry: {x: x.next}}\n" +
				"outputs: {action: act.x.next}\n",
			"repo/chosen/1/model.onnx": "m", "repo/chosen/2/model.onnx": "m",
			"repo/chosen/model.yaml": "versions: {policy: {specific: [2]}}\n",
			"repo/gate/1/pipeline.yaml": "steps:\n- {name: see, model: eye, version: 1, inputs: {image: image}}\n" +
				"- {name: act, model: hand, version: 7, inputs: {x: image}, when: {output: see.f, above: 0.5, below: 1}}\n" +
				"- {name: then, model: eye, version: 3, inputs: {x: act.y}}\n" +
				"outputs: {f: see.f, y: then.y}\ndefaults: {y: -1}\n",
			"repo/gates/1/pipeline.yaml": "joined: false\nsteps:\n- {name: see, model: chosen, version: 1, inputs: {x: x}}\n" +
				"- {name: act, model: hand, version: 7, inputs: {x: x}, when: {output: image}}\n" +
				"- {name: then, model: eye, version: 3, inputs: {x: act.y}, when: {output: sea.x, above: much}}\n" +
				"outputs: {f: see.f, y: then.y}\ndefaults: {f: 1, z: 2}\n",
			"repo/listed/1/pipeline.yaml": "joined: false\nsteps:\n- {name: see, model: chosen, version: 1, inputs: {x: x}}\n" +
				"outputs: {f: see.f}\n",
			"repo/both/1/model.onnx": "m", "repo/both/1/pipeline.yaml": "steps: []\n",
			"repo/missing/1/pipeline.yaml": "steps:\n- {name: a, model: eey, version: 1}\n- {name: b, model: eye, version: 2}\n" +
				"- {name: c, model: s, version: 1}\n- {name: d, model: good, version: 2}\n- {name: e, model: eye, version: 4}\n" +
				"- {name: f, model: odd, version: 1}\noutputs: {a: a.x, b: b.x, c: c.x, d: d.x, e: e.x, f: f.x}\n",
			"repo/odd/1/model.onnx": "m", "repo/odd/model.yaml": "traffic: {weights: {1: 1}}\n",
			"repo/wrong/1/pipeline.yaml": "steps:\n- {name: a.b, model: /eye, version: 0, input: {x: y}}\n" +
				"- {name: see, model: eye, version: 1, inputs: {x: see.y, z: act.q, w: se.f}, repeat: 3, wen: {}}\n" +
				"- {name: see, model: eye, version: 1, inputs: {x: see/y}, carry: {x: y}, repeat: 0}\n" +
				"- {name: act, model: eye, version: 1, inputs: {x: \"\"}, repeat: 20000, carry: {x: y}}\n" +
				"outputs: {see.f: see.f, action: image}\n",
			"repo/empty/1/pipeline.yaml": "{}\n",
			"repo/never/1/pipeline.yaml": "steps:\n- {name: see, model: eye, inputs: {a: 0, b: \"1\", c: see.f}}\n" +
				"- {name: act, model: hand, version: 7, inputs: {x: x}, when: {output: see.f, above: 0.9, below: 0.1}}\n" +
				"outputs: {y: act.y}\ndefaults: {y: 0}\n",
			"repo/typo/1/pipeline.yaml":   "steps:\n- {name: see, model: eye, version: 1}\noutput: {f: see.f}\n",
			"repo/syntax/1/pipeline.yaml": "steps: [\noutputs: {f: see.f}\n",
			"repo/words/1/pipeline.yaml": "steps:\n- {name: see, model: eye, version: 1}\n" +
				"- {name: act, model: hand, version: 7, inputs: {x: x}, when: see.f > 1}\noutputs: {f: see.f, y: act.y}\n",
			"repo/idle/1/pipeline.yaml": "steps:\n- {name: see, model: eye, version: 1}\n- {name: act, model: hand, " +
				"version: 7}\noutputs: {f: see.f}\n",
			"repo/yml/1/pipeline.yml": "", "repo/loosely/pipeline.yaml": "",
		}},
		{name: "ensembles", files: map[string]string{
			"repo/eye/1/model.onnx": "m", "repo/eye/3/model.onnx": "m", "repo/hand/7/model.onnx": "m",
			"repo/trt/1/model.onnx": "m", "repo/trt/config.pbtxt": "platform: \"tensorrt_plan\"\n",
			"repo/bare/1/": "", "repo/bare/config.pbtxt": "platform: \"ensemble\"\n",
			"repo/good/1/": "", "repo/good/config.pbtxt": "platform: \"ensemble\"\nmax_batch_size: 8\n" +
				"input { name: \"raw.0\" data_type: TYPE_FP32 dims: 48 }\noutput { name: \"action\" data_type: TYPE_FP32 dims: 8 }\n" +
				"ensemble_scheduling {\n step { model_name: \"hand\" model_version: 7 input_map { key: \"f\" value: \"seen\" } " +
				"output_map { key: \"y\" value: \"action\" } }\n step { model_name: \"eye\" model_version: -1 " +
				"input_map { key: \"image\" value: \"raw.0\" } output_map { key: \"f\" value: \"seen\" } }\n}\n",
			"repo/git/config.pbtxt": "input { name: \"x\" data_type: TYPE_FP32 dims: 8 }\noutput { name: \"y\" " +
				"data_type: TYPE_FP32 dims: 8 }\nensemble_scheduling {\n step { model_name: \"hand\" model_version: 7 " +
				"input_map { key: \"f\" value: \"x\" } output_map { key: \"y\" value: \"y\" } }\n}\n",
			"repo/wrong/1/": "", "repo/wrong/config.pbtxt": "platform: \"ensemble\"\n" +
				"input { name: \"raw\" data_type: TYPE_FP32 dims: 48 }\noutput { name: \"action\" data_type: TYPE_FP32 dims: 8 }\n" +
				"ensemble_scheduling {\n step {\n model_name: \"hand\"\n input_map { key: \"f\" value: \"a\" }\n " +
				"output_map { key: \"y\" value: \"b\" } }\n step {\n model_name: \"eye\"\n input_map { key: \"x\" value: \"b\" }\n" +
				" output_map { key: \"y\" value: \"a\" } output_map { key: \"z\" value: \"raw\" } }\n" +
				" step {\n model_name: \"eye\"\n input_map { key: \"x\" value: \"nobody\" } }\n}\n",
			"repo/steps/1/": "", "repo/steps/config.pbtxt": "platform: \"ensemble\"\n" +
				"input { name: \"raw\" data_type: TYPE_FP32 dims: 48 }\noutput { name: \"y\" data_type: TYPE_FP32 dims: 8 }\n" +
				"ensemble_scheduling {\n step {\n model_name: \"trt\"\n input_map { key: \"x\" value: \"raw\" }\n " +
				"output_map { key: \"y\" value: \"a\" } }\n step {\n model_name: \"hnad\"\n input_map { key: \"x\" value: \"a\" }\n" +
				" output_map { key: \"y\" value: \"b\" } }\n step {\n model_name: \"hand\"\n model_version: 2\n" +
				" input_map { key: \"x\" value: \"b\" }\n output_map { key: \"y\" value: \"y\" } }\n}\n",
		}},
		{name: "links", files: map[string]string{
			"outside/secret/1/model.onnx": "m",
			"outside/model.onnx":          "m",
			"repo/real/1/model.onnx":      "m",
			"repo/real/2":                 "-> 1",
			"repo/alias":                  "-> real",
			"repo/k8s/..data/model.onnx":  "m",
			"repo/k8s/1/model.onnx":       "-> ../..data/model.onnx",
			"repo/escape":                 "-> ../outside/secret",
			"repo/absolute":               "-> /",
			"repo/file/1/model.onnx":      "-> ../../../outside/model.onnx",
			"repo/file/2/model.onnx":      "-> missing.onnx",
			"repo/version/1":              "-> ../../outside/secret/1",
			"repo/manifest/1/model.onnx":  "m",
			"repo/manifest/model.yaml":    "-> ../../outside/model.onnx",
			"repo/loop":                   "-> loop",
		}},
		{name: "empty", files: map[string]string{"repo/README.md": "nothing here"}},
		{name: "is-a-model", files: map[string]string{
			"repo/1/model.onnx": "m", "repo/2/model.onnx": "m",
			"repo/model.yaml": "",
		}},
		{
			name: "two", repos: []string{"one", "other"},
			files: map[string]string{
				"one/a/1/model.onnx":      "m",
				"one/same/1/model.onnx":   "m",
				"other/same/2/model.onnx": "m",
				"other/Z/1/model.onnx":    "m",
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tmp := t.TempDir()
			build(t, tmp, tt.files)
			repos := []string{filepath.Join(tmp, "repo")}
			if tt.repos != nil {
				repos = nil
				for _, repo := range tt.repos {
					repos = append(repos, filepath.Join(tmp, repo))
				}
			}
			r, err := modelrepo.Open(repos...)
			if err != nil {
				t.Fatal(err)
			}
			l := r.Scan()
			golden(t, "testdata/scan/"+tt.name+".txt", show(l, tmp))
			if hasError := strings.Contains(show(l, tmp), "error: ") || strings.Contains(show(l, tmp), "missing: ") ||
				len(l.Faults) > 0; hasError != (l.Err() != nil) {
				t.Errorf("Err() is %v", l.Err())
			}
		})
	}
}

func TestScanReadsTheManifest(t *testing.T) {
	dir := t.TempDir()
	build(t, dir, map[string]string{"a/1/model.onnx": "m", "a/model.yaml": "weight: 2", "b/1/model.onnx": "m"})
	r, err := modelrepo.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	l := r.Scan()
	want := modelrepo.Defaults()
	if diff := cmp.Diff(want, l.Models[1].Manifest); diff != "" {
		t.Errorf("b has no manifest (-defaults +got):\n%s", diff)
	}
	want.Weight = 2
	if diff := cmp.Diff(want, l.Models[0].Manifest); diff != "" {
		t.Errorf("a (-want +got):\n%s", diff)
	}
}

func TestScanFollowsChanges(t *testing.T) {
	tmp := t.TempDir()
	build(t, tmp, map[string]string{"v1/a/1/model.onnx": "m", "v2/a/2/model.onnx": "m", "repo": "-> v1"})
	repo := filepath.Join(tmp, "repo")
	r, err := modelrepo.Open(repo)
	if err != nil {
		t.Fatal(err)
	}
	selected := func() string {
		l := r.Scan()
		if len(l.Models) == 0 {
			return "none"
		}
		return numbers(l.Models[0].Selected)
	}
	if got := selected(); got != "[1]" {
		t.Errorf("at first %s", got)
	}
	// As Kubernetes does it: the repository itself is a link, and is swapped.
	if err := os.Remove(repo); err != nil {
		t.Fatal(err)
	}
	build(t, tmp, map[string]string{"repo": "-> v2"})
	if got := selected(); got != "[2]" {
		t.Errorf("after the swap %s", got)
	}
	if err := os.Remove(repo); err != nil {
		t.Fatal(err)
	}
	if l := r.Scan(); len(l.Models) != 0 || !errors.Is(l.Err(), modelrepo.ErrNoRepository) {
		t.Errorf("after removal: %v, %v", l.Models, l.Err())
	}
}

func TestManifestFaultsKeepTheirType(t *testing.T) {
	dir := t.TempDir()
	build(t, dir, map[string]string{"a/model.yaml": "wieght: 2"})
	r, err := modelrepo.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	l := r.Scan()
	faults, ok := errors.AsType[config.Faults](l.Err())
	if !ok || len(faults) != 1 || faults[0].Suggestion != "weight" {
		t.Errorf("error %v", l.Err())
	}
}

func TestOpenFaults(t *testing.T) {
	tmp := t.TempDir()
	build(t, tmp, map[string]string{"file": "x", "dir/": ""})
	at := func(name string) string { return filepath.Join(tmp, name) }
	for want, paths := range map[string][]string{
		"no directory was named; expected <model>/<version>/model.onnx":                  nil,
		"TMP/absent does not exist; expected <model>/<version>/model.onnx":               {at("absent")},
		"TMP/file is a file; name the directory that holds <model>/<version>/model.onnx": {at("dir"), at("file")},
		"TMP/dir is named twice; name it once":                                           {at("dir"), at("file/../dir")},
	} {
		r, err := modelrepo.Open(paths...)
		if r != nil || !errors.Is(err, modelrepo.ErrNoRepository) {
			t.Errorf("%v: %v, %v", paths, r, err)
			continue
		}
		if got := strings.ReplaceAll(err.Error(), tmp, "TMP"); !strings.Contains(got, want) {
			t.Errorf("%v:\n got %s\nwant %s", paths, got, want)
		}
	}
	_, err := modelrepo.Open(at("absent"), at("file"))
	if err == nil || !strings.Contains(err.Error(), "absent") || !strings.Contains(err.Error(), "is a file") {
		t.Errorf("not all faults at once: %v", err)
	}
}

func TestRelativePathsBecomeAbsolute(t *testing.T) {
	dir := t.TempDir()
	build(t, dir, map[string]string{"repo/a/1/model.onnx": "m"})
	t.Chdir(dir)
	r, err := modelrepo.Open("repo")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("/")
	l := r.Scan()
	if len(l.Models) != 1 || filepath.Dir(l.Models[0].Dir) != filepath.Join(dir, "repo") ||
		!filepath.IsAbs(l.Models[0].Versions[0].Path) {
		t.Errorf("listing %v", l)
	}
}
