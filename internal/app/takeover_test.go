package app

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
)

func TestTakeovers(t *testing.T) {
	spec := func(name string, shape ...int64) tensor.Spec {
		return tensor.Spec{Name: name, DType: tensor.Float32, Shape: shape}
	}
	signature := func(in, out tensor.Spec) *tensor.Signature {
		return &tensor.Signature{Inputs: []tensor.Spec{in}, Outputs: []tensor.Spec{out}}
	}
	was := signature(spec("obs", -1, 99), spec("action", -1, 29))
	version := func(number int64, s *tensor.Signature) *catalog.Version {
		return &catalog.Version{Model: "kick", Number: number, State: catalog.Ready, Signature: s}
	}
	half := spec("obs", -1, 99)
	half.DType = tensor.Float16
	for name, c := range map[string]struct {
		now  *tensor.Signature
		want string
	}{
		"the same":  {signature(spec("obs", -1, 99), spec("action", -1, 29)), ""},
		"more open": {signature(spec("obs", -1, -1), spec("action", -1, -1)), ""},
		"narrower": {
			signature(spec("obs", -1, 48), spec("action", -1, 29)),
			`its input \"obs\" is fp32 [?,48], was fp32 [?,99]`,
		},
		"another dtype": {
			signature(half, spec("action", -1, 29)),
			`its input \"obs\" is fp16 [?,99], was fp32 [?,99]`,
		},
		"only one row": {
			signature(spec("obs", 1, 99), spec("action", 1, 29)),
			`its input \"obs\" is fp32 [1,99], was fp32 [?,99]`,
		},
		"another name":   {signature(spec("state", -1, 99), spec("action", -1, 29)), `it wants an input \"state\"`},
		"another output": {signature(spec("obs", -1, 99), spec("q", -1, 29)), `it has no output \"action\"`},
		"other actions": {
			signature(spec("obs", -1, 99), spec("action", -1, 12)),
			`its output \"action\" is fp32 [?,12], was fp32 [?,29]`,
		},
		"no input": {&tensor.Signature{Outputs: was.Outputs}, `it has no input \"obs\"`},
		"more outputs": {&tensor.Signature{
			Inputs: was.Inputs, Outputs: []tensor.Spec{spec("value", -1), spec("action", -1, 29)},
		}, ""},
	} {
		for order, snapshots := range map[string][]*catalog.Snapshot{
			"the old one first": {
				{Models: catalog.ByName(&catalog.Model{Name: "kick", Versions: []*catalog.Version{version(2, was)}})},
				{Models: catalog.ByName(
					&catalog.Model{Name: "kick", Versions: []*catalog.Version{version(2, was), version(9, c.now)}})},
			},
			"the new one first": {
				{Models: catalog.ByName(&catalog.Model{Name: "kick", Versions: []*catalog.Version{version(9, c.now)}})},
				{Models: catalog.ByName(
					&catalog.Model{Name: "kick", Versions: []*catalog.Version{version(2, was), version(9, c.now)}})},
			},
			"one instead of the other": {
				{Models: catalog.ByName(&catalog.Model{Name: "kick", Versions: []*catalog.Version{version(2, was)}})},
				{Models: catalog.ByName(&catalog.Model{Name: "kick", Versions: []*catalog.Version{version(9, c.now)}})},
			},
			"chosen by name": {{Models: catalog.ByName(&catalog.Model{
				Name: "kick", Versions: []*catalog.Version{version(2, was), version(9, c.now)},
				Traffic: &catalog.Traffic{Split: []catalog.Slot{{Name: "a", Version: 2, Weight: 1}}},
			})}},
		} {
			var log bytes.Buffer
			follow := newTakeovers(slog.New(slog.NewTextHandler(&log, nil)))
			for _, s := range snapshots {
				follow.follow(s)
				again := *s.Model("kick") // as when something else of the model changes
				follow.follow(&catalog.Snapshot{Models: catalog.ByName(&again)})
			}
			want := c.want
			if order == "chosen by name" {
				want = ""
			}
			lines := strings.Count(log.String(), "\n")
			if want == "" && lines > 0 || want != "" &&
				(lines != 1 || !strings.Contains(log.String(), `event=signature_changed model=kick version=9 before=2 difference="`+want+`"`)) {
				t.Errorf("%s, %s: %q, want %q once", name, order, log.String(), want)
			}
		}
	}
}
