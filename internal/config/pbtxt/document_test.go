package pbtxt_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/config/pbtxt"
	"github.com/weftserve/weft/proto/gen/inference"
)

// text has every form that values have.
const text = `# a comment with name: "no" {
name: 'a' "b\"" # joined
input [
  { name: "x", dims: [ 1, -1 ] },
  { name: "y"; dims: 3 dims: 4 }
]
input < name: "z" >
dynamic_batching: { priority_queue_policy { key: 7 value {
  max_queue_size: 0x10 } } }
parameters { value { string_value: "v" } key: "a.b" } parameters { key: "c" }
model_metrics { metric_control { histogram_options { buckets: [ -1.5e+3, 2 ] } } }
version_policy { all {} }`

func TestPlaces(t *testing.T) {
	var m inference.ModelConfig
	d, err := pbtxt.Read("f", []byte(text), &m)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]int{}
	for _, leaf := range pbtxt.Leaves(&m) {
		lines[leaf] = d.Line(leaf)
	}
	want := map[string]int{
		"name": 2, "input[0].name": 4, "input[0].dims": 4, "input[1].name": 5, "input[1].dims": 5, "input[2].name": 7,
		"dynamic_batching.priority_queue_policy[7].max_queue_size": 8, "parameters[a.b].string_value": 10,
		"parameters[c]": 10, "model_metrics.metric_control[0].histogram_options.buckets": 11, "version_policy.all": 12,
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("lines of what is set (-want +got):\n%s", diff)
	}
	f := d.Fault("input[1].dims", "wrong")
	if f.Column != 16 || !strings.Contains(f.String(), "\n    5 |   { name: \"y\"; dims: 3") {
		t.Errorf("fault %v", f)
	}
	if d.Stands("max_batch_size") || !d.Stands("version_policy.all") {
		t.Error("what stands in the file")
	}
}

func TestFaults(t *testing.T) {
	for text, want := range map[string]string{
		"name: \"a\"\n  bakend: \"b\"": "f:2:3: bakend: unknown field; expected one of ModelConfig or of a message in it: correct its name, or remove it; did you mean \"backend\"?\n    2 |   bakend: \"b\"\n      |   ^",
		"inputs []":                    "f:1:1: inputs: unknown field here; expected it in another message: move it there, correct its name, or remove it; did you mean \"input\"?\n    1 | inputs []\n      | ^",
		"parameters {\n valu: {} }":    "f:2:2: valu: unknown field; expected one of ModelConfig or of a message in it: correct its name, or remove it; did you mean \"value\"?\n    2 |  valu: {} }\n      |  ^",
		"input [{ data_type: FP32 }]":  "f:1:21: data_type: expected a value of its type, found FP32; did you mean \"TYPE_FP32\"?\n    1 | input [{ data_type: FP32 }]\n      |                     ^",
		"input {\n":                    "f:2:1: expected the text of a ModelConfig, found unexpected EOF\n    2 | \n      | ^",
		"max_batch_size: x":            "f:1:17: max_batch_size: expected the text of a ModelConfig, found invalid value for int32 type: x\n    1 | max_batch_size: x\n      |                 ^",
		"\xef\xbb\xbfname: \"\xff\"":   "f:1:7: name: expected the text of a ModelConfig, found invalid UTF-8 detected\n    1 | name: \"\ufffd\"\n      |       ^",
		strings.Repeat("#", 5<<20):     "f: the file is larger than 4MiB; expected at most that",
	} {
		_, err := pbtxt.Read("f", []byte(text), &inference.ModelConfig{})
		if err == nil || err.Error() != want {
			t.Errorf("%.40q:\n got %v\nwant %s", text, err, want)
		}
		if _, ok := err.(config.Faults); !ok { //nolint:errorlint // that is what it is to be
			t.Errorf("%T", err)
		}
	}
}

// TestSpaceBetweenTokens: what is set stands in the file, wherever there are spaces and comments.
func TestSpaceBetweenTokens(t *testing.T) {
	const tight = `max_batch_size:4 input:[{name:"x",dims:[1,2]reshape:{shape:[]}},{name:"y"dims:[]}]output[]` +
		`model_warmup[]dynamic_batching{}instance_group[{kind:KIND_CPU,gpus:[0]}]version_policy{all{}}` +
		`parameters[{key:"k"value{string_value:"v"}}]backend:"onnxruntime"`
	spaces := []string{"", " ", "\n", "\t", " # [ ] { } \n", "\r\n"}
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var text strings.Builder
		quoted := false
		for _, c := range tight {
			quoted = quoted != (c == '"')
			apart := !quoted && strings.ContainsRune("[]{}:,", c)
			if apart {
				text.WriteString(spaces[rng.IntN(len(spaces))])
			}
			text.WriteRune(c)
			if apart {
				text.WriteString(spaces[rng.IntN(len(spaces))])
			}
		}
		var m inference.ModelConfig
		d, err := pbtxt.Read("f", []byte(text.String()), &m)
		if err != nil {
			t.Fatalf("%s: %v", text.String(), err)
		}
		for _, leaf := range append(pbtxt.Leaves(&m), "model_warmup", "output") {
			leaf = strings.Replace(leaf, "parameters[k].string_value", "parameters[k]", 1)
			if !d.Stands(leaf) {
				t.Fatalf("seed %d: %s does not stand in\n%s", seed, leaf, text.String())
			}
		}
	}
}
