package serving

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/residency"
	"github.com/weftserve/weft/runtime/tensor"
)

// along returns a tensor with rows in a dimension.
func along(dim int, name string, dtype tensor.DType, shape ...int64) tensor.Spec {
	s := weftest.Spec(name, dtype, shape...)
	s.BatchDim = dim
	return s
}

// recurrent is a model with all kinds of state, and of what is none.
func recurrent() *tensor.Signature {
	const f, open, none = tensor.Float32, tensor.Unknown, tensor.NoBatch
	past := along(0, "last", f, open, 2, 3)
	past.Variable = &tensor.Variable{Dim: 1}
	return &tensor.Signature{
		Inputs: []tensor.Spec{
			along(0, "obs", f, open, 2), along(1, "h", f, 2, open, 3), along(0, "c", tensor.Float16, open, 2),
			along(0, "cache", f, open, 4, open, 8), along(0, "stack", f, open, 3, 2), along(0, "flat", f, open, 6),
			past, along(0, "first", tensor.Bool, open, 1), along(none, "step", tensor.Int64),
			along(0, "text", tensor.String, open), along(0, "any", f, open, open), along(0, "vast", f, open, 1<<40, 1<<40),
			along(0, "past", f, open, open, open),
		},
		Outputs: []tensor.Spec{
			along(0, "act", f, open, 2), along(1, "hn", f, open, open, open), along(0, "cn", tensor.Float16, open, 2),
			along(0, "present", f, open, 4, open, 8), along(none, "stepped", tensor.Int64), along(0, "long", f, open, 3),
			along(0, "said", tensor.String, open), along(0, "wide", f, open, 1<<40, 1<<40),
			along(0, "more", f, open, 2, 1), along(0, "id", tensor.Int64, open), along(0, "now", f, open, open, open),
		},
		Optional: []tensor.Spec{along(none, "bias", f, 2)},
		Notes:    []string{`output "list" is a sequence, which cannot be served`},
	}
}

// resolve returns what the server keeps of a recurrent model by model.yaml, whose files lie in dir.
func resolve(t *testing.T, dir, yaml string) (*catalog.EpisodeState, error) {
	t.Helper()
	return resolveBy(t, recurrent(), dir, yaml)
}

func resolveBy(t *testing.T, sig *tensor.Signature, dir, yaml string) (*catalog.EpisodeState, error) {
	t.Helper()
	m, err := modelrepo.ReadManifest("model.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	m.State.File, m.State.Text = "model.yaml", []byte(yaml)
	r := &Replica{signature: sig}
	err = r.keep(residency.Candidate{Manifest: &m, Version: modelrepo.Version{Dir: filepath.Join(dir, "m", "1")}})
	return r.state, err
}

func TestState(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"m/h.json": "[[1, 2, 3], [4, 5, 6]]", "m/1/cache.json": "[[[1, 2, 3, 4, 5, 6, 7, 8]], [[1, 2, 3, 4, 5, 6, 7, 8]], " +
			"[[1, 2, 3, 4, 5, 6, 7, 8]], [[1, 2, 3, 4, 5, 6, 7, 8]]]", "m/1/c.json": "[1, 2]", "m/none.json": "[]", "m/c.json": "[3, 4]",
	} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := resolve(t, dir, `state:
  pairs:
    - {input: c, output: cn}
    - {input: h, output: hn}
    - {input: cache, output: present}
    - {input: step, output: stepped}
  windows: [{input: flat, of: obs, steps: 3}, {input: stack, of: act, steps: 3}]
  initial: {h: h.json, c: c.json, step: -2, stack: 0.5}
  start: first
  idle: 1s
  on_version_change: carry
  bind: stream
`)
	if err != nil {
		t.Fatal(err)
	}
	numbers := func(dim int, shape tensor.Shape, values ...float32) catalog.StateInput {
		return catalog.StateInput{Input: dim, Output: -1, Of: -1, Initial: weftest.Floats(shape, values...)}
	}
	h := numbers(1, tensor.Shape{2, 1, 3}, 1, 2, 3, 4, 5, 6)
	h.Output = 1
	cache := catalog.StateInput{Input: 3, Output: 3, Of: -1}
	cache.Initial = tensor.Tensor{DType: tensor.Float32, Shape: tensor.Shape{1, 4, 0, 8}, Data: []byte{}}
	stack := numbers(4, tensor.Shape{1, 3, 2}, .5, .5, .5, .5, .5, .5)
	flat := numbers(5, tensor.Shape{1, 6}, 0, 0, 0, 0, 0, 0)
	stack.Output, stack.Window, flat.Of, flat.Window = 0, 3, 0, 3
	want := &catalog.EpisodeState{
		Inputs: []catalog.StateInput{
			h,
			{Input: 2, Output: 2, Of: -1, Initial: tensor.Tensor{
				DType: tensor.Float16, Shape: tensor.Shape{1, 2}, Data: []byte("\x00\x3c\x00\x40"),
			}},
			cache, stack, flat,
			{Input: 8, Output: 4, Of: -1, Initial: tensor.Tensor{
				DType: tensor.Int64, Shape: tensor.Shape{}, Data: []byte("\xfe\xff\xff\xff\xff\xff\xff\xff"),
			}},
		},
		Controls:    []catalog.StateControl{{Input: 7}},
		MaxEpisodes: 10_000, Idle: time.Second, OnChange: catalog.CarryChange, OfStream: true,
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	got, err = resolve(t, dir, "state: {pairs: [{input: cache, output: present}], initial: {cache: cache.json}}")
	if err != nil || !slices.Equal(got.Inputs[0].Initial.Shape, tensor.Shape{1, 4, 1, 8}) ||
		len(got.Inputs[0].Initial.Data) != 128 {
		t.Errorf("a cache that begins with one step: %+v, %v", got, err)
	}
	got, err = resolve(t, dir, "state: {pairs: [{input: past, output: now}], initial: {past: none.json}}")
	if err != nil || !slices.Equal(got.Inputs[0].Initial.Shape, tensor.Shape{1, 0, 0}) {
		t.Errorf("an empty list: %+v, %v", got, err)
	}
}

// TestStateWithoutRows: a window of a model whose sizes are all fixed.
func TestStateWithoutRows(t *testing.T) {
	sig := &tensor.Signature{Inputs: []tensor.Spec{
		along(tensor.NoBatch, "obs", tensor.Float32, 1, 2), along(tensor.NoBatch, "flat", tensor.Float32, 1, 6),
		along(tensor.NoBatch, "stack", tensor.Float32, 1, 3, 2),
	}}
	got, err := resolveBy(t, sig, t.TempDir(),
		"state: {windows: [{input: flat, of: obs, steps: 3}, {input: stack, of: obs, steps: 3}]}")
	if err != nil || len(got.Inputs[0].Initial.Data) != 24 || len(got.Inputs[1].Initial.Data) != 24 {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = resolve(t, t.TempDir(), "state: {windows: [{input: flat, steps: 3}, {input: stack, steps: 3}]}")
	if err != nil || got.Inputs[0].Of != 4 || got.Inputs[1].Of != 5 || len(got.Inputs[1].Initial.Data) != 24 {
		t.Errorf("windows of themselves: %+v, %v", got, err)
	}
}

// TestStateFaults has what does not fit the model, with its places in model.yaml.
func TestStateFaults(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "m"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"short": "[[1, 2, 3], [4, 5]]", "flat": "[1, 2]", "deep": "[[[1], 2, 3], [4, 5, 6]]", "text": `[["a", 2, 3], [4, 5, 6]]`,
		"two": "[[1, 2, 3], [4, 5, 6]] []", "cut": "[[1, 2",
	} {
		if err := os.WriteFile(filepath.Join(dir, "m", name+".json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ state, want string }{
		{`pairs: [{input: hh, output: presnt}]`, `1:18: state.pairs[0].input: the model has no such input; expected one of obs, h, c, cache, stack, flat, last, first, step, text, any, vast, past, found "hh"`},
		{`pairs: [{input: hh, output: presnt}]`, `1:29: state.pairs[0].output: the model has no such output; expected one of act, hn, cn, present, stepped, long, said, wide, more, id, now, found "presnt"; did you mean "present"?`},
		{`pairs: [{input: h, output: hm}, {input: c, output: h}]`, `1:28: state.pairs[0].output: the model has no such output; expected one of act, hn, cn, present, stepped, long, said, wide, more, id, now, found "hm"`},
		{`pairs: [{input: h, output: hm}, {input: c, output: h}]`, `1:52: state.pairs[1].output: the model has no such output;`},
		{`pairs: [{input: h, output: list}]`, `state.pairs[0].output: expected an output that Weft serves: output "list" is a sequence`},
		{`pairs: [{input: bias, output: act}]`, `state.pairs[0].input: expected an input that each request has: the model has a default`},
		{`pairs: [{input: text, output: said}]`, `state.pairs[0].input: expected numbers, or true and false: its elements are strings`},
		{`pairs: [{input: text, output: said}]`, `state.pairs[0].output: expected numbers, or true and false: its elements are strings`},
		{`pairs: [{input: h, output: cn}]`, `state.pairs[0]: expected elements of one type: the input is fp32, the output fp16`},
		{`pairs: [{input: h, output: act}]`, `state.pairs[0]: expected rows along one dimension (batching.batch_dim, batching.unbatched): the input has rows along dimension 1, the output rows along dimension 0`},
		{`pairs: [{input: obs, output: long}]`, `state.pairs[0]: expected one shape but for the rows: the input is [?,2], the output [?,3]`},
		{`pairs: [{input: stack, output: act}]`, `state.pairs[0]: expected one shape but for the rows: the input is [?,3,2], the output [?,2]`},
		{`pairs: [{input: obs, output: more}]`, `state.pairs[0]: expected one shape but for the rows: the input is [?,2], the output [?,2,1]`},
		{`pairs: [{input: vast, output: wide}]`, `state.pairs[0]: expected at most 67108864 elements in a row: the input is [?,1099511627776,1099511627776]`},
		{`pairs: [{input: last, output: now}]`, `state.pairs[0]: expected an input outside batching.variable_dims`},
		{`windows: [{input: stack, of: ops, steps: 3}]`, `state.windows[0].of: the model has no such input or output; expected one of obs, `},
		{`windows: [{input: stack, of: stepd, steps: 3}]`, `found "stepd"; did you mean "step"?`},
		{`windows: [{input: stack, of: bias, steps: 3}]`, `state.windows[0].of: expected an input that each request has`},
		{`windows: [{input: stack, of: list, steps: 3}]`, `state.windows[0].of: expected an output that Weft serves`},
		{`windows: [{input: stack, of: c, steps: 3}]`, `state.windows[0]: expected elements of one type: the input is fp32, c is fp16`},
		{`windows: [{input: step, of: id, steps: 1}]`, `state.windows[0]: expected rows along dimension 0 in both (batching.batch_dim, batching.unbatched): the input has no rows, id has rows along dimension 0`},
		{`windows: [{input: step, of: stepped, steps: 1}]`, `state.windows[0]: expected rows along dimension 0 in both (batching.batch_dim, batching.unbatched): the input has no rows, stepped has no rows`},
		{`windows: [{input: h, of: act, steps: 3}]`, `state.windows[0]: expected rows along dimension 0 in both (batching.batch_dim, batching.unbatched): the input has rows along dimension 1, act has rows along dimension 0`},
		{`windows: [{input: obs, of: hn, steps: 3}]`, `the input has rows along dimension 0, hn has rows along dimension 1`},
		{`windows: [{input: step, of: step2, steps: 3}]`, `state.windows[0].of: the model has no such input or output`},
		{`windows: [{input: stack, of: any, steps: 3}]`, `state.windows[0]: expected known sizes but for the rows: the input is [?,3,2], any is [?,?]`},
		{`windows: [{input: stack, of: obs, steps: 4}]`, `state.windows[0]: expected a row of the input to be rows of obs one behind the other, as many as steps, such as [4,2] or [8]: it is [3,2]`},
		{`windows: [{input: last, of: obs, steps: 3}]`, `state.windows[0]: expected a row of the input to be rows of obs one behind the other, as many as steps, such as [3,2] or [6]: it is [2,3]`},
		{`windows: [{input: stack, steps: 2}]`, `state.windows[0]: expected a row of the input to be values one behind the other, as many as steps: its first dimension a multiple of 2, and all sizes known; it is [3,2]`},
		{`windows: [{input: any, steps: 2}]`, `and all sizes known; it is [?]`},
		{`windows: [{input: h, steps: 2}]`, `state.windows[0]: expected rows along dimension 0 (batching.batch_dim, batching.unbatched): the input has rows along dimension 1`},
		{`windows: [{input: hh, steps: 2}]`, `state.windows[0].input: the model has no such input`},
		{`{pairs: [{input: h, output: hn}], start: obs}`, `state.start: expected one number, true or false, or one for each row: the input is [?,2]`},
		{`{pairs: [{input: h, output: hn}], start: text}`, `state.start: expected numbers, or true and false`},
		{`{pairs: [{input: step, output: stepped}], initial: {step: 0.5}}`, `1:60: state.initial.step: expected a whole number that int64 holds, found "0.5"; expected a row of type int64 and the shape []`},
		{`{pairs: [{input: h, output: hn}], initial: {h: none.json}}`, `none.json does not exist; put it there, or into the directory of the version; expected a row of type fp32 and the shape [2,3]`},
		{`{pairs: [{input: h, output: hn}], initial: {h: short.json}}`, `state.initial.h: short.json: found a list of 2 where one of 3 is expected; expected a row`},
		{`{pairs: [{input: h, output: hn}], initial: {h: flat.json}}`, `state.initial.h: flat.json: found 1 where a list is expected; expected a row`},
		{`{pairs: [{input: h, output: hn}], initial: {h: deep.json}}`, `deep.json: found a list where a number is expected`},
		{`{pairs: [{input: h, output: hn}], initial: {h: text.json}}`, `text.json: found something else than numbers`},
		{`{pairs: [{input: h, output: hn}], initial: {h: two.json}}`, `two.json: there is more behind the lists`},
		{`{pairs: [{input: h, output: hn}], initial: {h: cut.json}}`, `cut.json: unexpected EOF`},
	} {
		yaml := "state: " + test.state
		if !strings.HasPrefix(test.state, "{") {
			yaml = "state: {" + test.state + "}"
		}
		_, err := resolve(t, dir, yaml)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "model.yaml:1:") {
			t.Errorf("%s\n%v\nwant: %s", yaml, err, test.want)
		}
	}
}
