package modelrepo_test

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// TestStatesOfSteps holds what the server keeps for the steps of pipelines, and what it cannot keep.
func TestStatesOfSteps(t *testing.T) {
	const (
		rec  = "- {name: %s, model: rec, version: 1, inputs: {%s}%s}\n"
		gate = "- {name: g, model: plain, version: 1, inputs: {x: x}}\n"
		when = ", when: {output: g.y, above: 0}"
	)
	one := func(inputs, more string) string { return fmt.Sprintf(rec, "a", inputs, more) }
	step := func(model, inputs, more string) string {
		return fmt.Sprintf("- {name: a, model: %s, version: 1, inputs: {%s}%s}\n", model, inputs, more)
	}
	plain := "- {name: b, model: plain, version: 1, inputs: {x: %s}}\n"
	const bounds = " max_episodes: 10000 idle: 1m on_version_change: refuse"
	const ofRec = "pairs: [{input: a.h, output: a.hn}] initial: {a.h: \"h0.json\"} "
	for _, test := range []struct{ about, steps, outputs, settings, want string }{
		{
			"rows along another dimension", step("deep", "x: x", ""), "y: a.y", "{}",
			"batching.batch_dim.inputs.a.h: expected 1 in the pipeline's own model.yaml, as model deep has it for h\n" +
				"batching.batch_dim.outputs.a.hn: expected 1 in the pipeline's own model.yaml, as model deep has it for hn\n" +
				"batching.unbatched: expected a.k in the pipeline's own model.yaml, as model deep has it for k",
		},
		{
			"which the pipeline's settings have", step("deep", "x: x", ""), "y: a.y",
			"batching: {batch_dim: {inputs: {a.h: 1}, outputs: {a.hn: 1}}, unbatched: [a.k]}",
			"pairs: [{input: a.h, output: a.hn}, {input: a.k, output: a.kn}]" + bounds,
		},
		{
			"one step", one("x: x", ""), "y: a.y", "",
			ofRec + "max_episodes: 5000 idle: 1m on_version_change: reset",
		},
		{"a state that the file wires", one("x: x, h: h", ""), "y: a.y, n: a.hn", "", ""},
		{
			"the pipeline's own state", one("x: x, h: h", ""), "y: a.y, next: a.hn",
			"state: {pairs: [{input: h, output: next}]}", "pairs: [{input: h, output: next}]" + bounds,
		},
		{
			"both, whose settings are the pipeline's", one("x: x, h: h", "") + fmt.Sprintf(rec, "b", "x: a.y", ""),
			"y: b.y, next: a.hn",
			"state: {pairs: [{input: h, output: next}], initial: {b.h: 2}, idle: 5s, bind: stream}",
			"pairs: [{input: h, output: next}, {input: b.h, output: b.hn}] initial: {b.h: 2} max_episodes: 10000 idle: 5s " +
				"on_version_change: refuse bind: stream",
		},
		{"clients carry it", one("x: x", ""), "y: a.y", "state: none", "none"},
		{
			"settings without pairs", one("x: x", ""), "y: a.y", "state: {idle: 2s, initial: {a.h: 1}}",
			"pairs: [{input: a.h, output: a.hn}] initial: {a.h: 1} max_episodes: 10000 idle: 2s on_version_change: refuse",
		},
		{
			"what differs between steps", one("x: x", "") + "- {name: b, model: told, version: 1, inputs: {x: a.y}}\n" +
				"- {name: c, model: told, version: 1, inputs: {x: b.y}}\n", "y: c.y", "",
			"pairs: [{input: a.h, output: a.hn}, {input: b.h, output: b.hn}, {input: c.h, output: c.hn}] " +
				"initial: {a.h: \"h0.json\"} start: b.first max_episodes: 5000 idle: 10s on_version_change: refuse bind: stream",
		},
		{
			"windows", step("stack", "x: image", ""), "z: a.y", "",
			"windows: [{input: a.past, of: image, steps: 3}, {input: a.last, of: z, steps: 2}]" + bounds,
		},
		{
			"a repeated step", one("x: x", ", repeat: 2, carry: {x: y, h: hn}"), "y: a.y", "state: {max_episodes: 3}",
			ofRec + "max_episodes: 3 idle: 1m on_version_change: refuse",
		},

		{
			"no step has a state", step("plain", "x: x", ""), "y: a.y", "state: {idle: 5s}",
			"! model.yaml:1:1: state: it keeps no input; expected such as pairs",
		},
		{
			"a first value of nothing", one("x: x", ""), "y: a.y", "state: {initial: {a.g: 1}}",
			"! model.yaml:1:19: state.initial.a.g: pairs and windows have no such input, only a.h",
		},
		{
			"two beginnings", step("told", "x: x", ""), "y: a.y", "state: {start: begin}",
			"! model.yaml:1:9: state.start: the pipeline has an input for that already, a.first, as state.start of a step's " +
				"model says; expected that step to get this one (inputs in pipeline.yaml)",
		},
		{
			"each time the same state", one("x: x", ", repeat: 2, carry: {x: y}"), "y: a.y", "",
			"! pipeline.yaml:2:64: steps[0].carry: the step is repeated, and its state h stays as it was each time; expected " +
				"it here, too ({h: hn})",
		},
		{
			"a beginning for some rows", gate + step("told", "x: x", when), "y: a.y", "",
			`! pipeline.yaml:3:38: steps[1].inputs: "first" is missing, and the server cannot keep it as state.start of ` +
				"model told says: the step leaves rows out (when), also of the first request; expected what it gets",
		},
		{
			"a repeated beginning", step("told", "x: x", ", repeat: 2, carry: {h: hn}"), "y: a.y", "",
			`"first" is missing, and the server cannot keep it as state.start of model told says: the step is repeated, and`,
		},
		{
			"a window for some rows", gate + step("stack", "x: x", when), "y: a.y", "",
			`"past" is missing, and the server cannot keep it as state.windows of model stack says: the step leaves rows out`,
		},
		{
			"a window in a repeated step", step("stack", "x: x", ", repeat: 2, carry: {x: y}"), "y: a.y", "",
			"says: the step is repeated;",
		},
		{
			"a window of what a step gives", gate + step("stack", "x: g.y", ""), "y: a.y", "",
			"says: x is neither an input nor an output of the pipeline; expected what it gets, such as an input of the " +
				"pipeline that state in the pipeline's own model.yaml names",
		},
		{
			"a window of what nobody gets", step("stack", "x: x", "") + fmt.Sprintf(plain, "a.y"), "y: b.y", "",
			"says: y is neither an input nor an output of the pipeline",
		},
		{
			"a window of what requests bring", step("frames", "x: x", ""), "y: a.y", "",
			`"past" is missing, and the server cannot keep it as state.windows of model frames says: requests bring the latest`,
		},
		{
			"a state in the place of an output", one("x: x", "") + fmt.Sprintf(plain, "a.h"), "y: b.y", "",
			"! pipeline.yaml:3:48: steps[1].inputs.x: that is an input of the step, which the server keeps; expected one of " +
				`its outputs, such as a.hn, found "a.h"`,
		},
	} {
		t.Run(test.about, func(t *testing.T) {
			tmp := t.TempDir()
			text := "steps:\n" + test.steps + "outputs: {" + test.outputs + "}\n"
			if strings.Contains(test.steps, "when") {
				text += "defaults: {y: 0}\n"
			}
			build(t, tmp, map[string]string{
				"plain/1/model.onnx": "m", "rec/1/model.onnx": "m", "told/1/model.onnx": "m", "stack/1/model.onnx": "m",
				"deep/1/model.onnx": "m", "frames/1/model.onnx": "m",
				"frames/model.yaml": "state: {windows: [{input: past, steps: 3}]}",
				"deep/model.yaml": "batching: {batch_dim: {inputs: {h: 1, x: 1}, outputs: {hn: 1}}, unbatched: [k]}\n" +
					"state: {pairs: [{input: h, output: hn}, {input: k, output: kn}]}",
				"rec/model.yaml": "state: {pairs: [{input: h, output: hn}], initial: {h: h0.json}, max_episodes: 5000, " +
					"on_version_change: reset}",
				"told/model.yaml":   "state: {pairs: [{input: h, output: hn}], start: first, idle: 10s, bind: stream}",
				"stack/model.yaml":  "state: {windows: [{input: past, of: x, steps: 3}, {input: last, of: y, steps: 2}]}",
				"p/1/pipeline.yaml": text, "p/model.yaml": cmp.Or(test.settings, "{}"),
			})
			r, err := modelrepo.Open(tmp)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range r.Scan().Models {
				if m.Name != "p" {
					continue
				}
				got := ""
				if len(m.Versions) == 0 {
					got = fmt.Sprint(m.Err)
				} else if v := &m.Versions[0]; v.Err != nil {
					got = fmt.Sprint(v.Err)
				} else if s := m.Settings(v).State; s != nil {
					text, err := config.Print(s)
					if err != nil {
						t.Fatal(err)
					}
					got = strings.Join(strings.Fields(text), " ")
				}
				got = strings.ReplaceAll(got, filepath.Join(tmp, "p")+"/", "! ")
				got = strings.ReplaceAll(got, "! 1/", "! ")
				if got != test.want && (!strings.Contains(got, "! ") || !strings.Contains(got, test.want)) {
					t.Errorf("%s\n%s\nis    %s\nwant: %s", text, test.settings, got, test.want)
				}
			}
		})
	}
}
