package serving

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/residency"
	"github.com/weftserve/weft/runtime/tensor"
)

// TestFindPairs has inputs and outputs by their names; a name may have a shape and a type that others have not.
func TestFindPairs(t *testing.T) {
	specs := func(names string) (all []tensor.Spec) {
		for name := range strings.FieldsSeq(names) {
			s := along(0, name, tensor.Float32, tensor.Unknown, 4)
			switch name, kind, _ := strings.Cut(name, ":"); kind {
			case "wide":
				s = along(0, name, tensor.Float32, tensor.Unknown, 5)
			case "open":
				s = along(0, name, tensor.Float32, tensor.Unknown, tensor.Unknown)
			case "turned":
				s = along(1, name, tensor.Float32, tensor.Unknown, tensor.Unknown)
			case "int":
				s = along(0, name, tensor.Int64, tensor.Unknown, 4)
			case "other":
				s = along(1, name, tensor.Float32, 4, tensor.Unknown)
			case "text":
				s = along(0, name, tensor.String, tensor.Unknown, 4)
			case "flat":
				s = along(0, name, tensor.Float32, tensor.Unknown)
			}
			all = append(all, s)
		}
		return all
	}
	for _, test := range []struct{ inputs, outputs, want string }{
		{"obs h c", "act hn cn", "h<-hn c<-cn"},
		{"obs h0 c0", "act hn cn", "h0<-hn c0<-cn"},
		{"obs h_0 c_0", "act h_n c_n", "h_0<-h_n c_0<-c_n"},
		{"obs_in h_in c_in", "act_out h_out c_out", "h_in<-h_out c_in<-c_out"},
		{"obs hidden", "act hidden_out", "hidden<-hidden_out"},
		{"input state sr:int", "output stateN:open", "state<-stateN"},
		{
			"ids past_key_values.0.key past_key_values.0.value", "logits present.0.key present.0.value",
			"past_key_values.0.key<-present.0.key past_key_values.0.value<-present.0.value",
		},
		{"ids past_0:open past_1:open", "logits present_0:open present_1:open", "past_0<-present_0 past_1<-present_1"},
		{"obs prev_h prev_c", "act next_h next_c", "prev_h<-next_h prev_c<-next_c"},
		{
			"obs actor.lstm_h_1 actor_cell_in", "act actor.lstm_h_1_out actor_cell_out",
			"actor.lstm_h_1<-actor.lstm_h_1_out actor_cell_in<-actor_cell_out",
		},
		{"mix conv_cache sr:int", "enh conv_cache_out", "conv_cache<-conv_cache_out"},
		{"x:wide h", "x_out hn", "h<-hn"},
		{"obs prev_action h", "act hn", "h<-hn"},
		// what leaves doubt
		{"obs h c", "act value", ""},
		{"ids past_0 past_1", "logits present_0", ""},
		{"ids past_key_values.0.key past_key_values.0.value", "logits present.0.key", ""},
		{"obs prev_h prev_c", "act next_h", ""},
		{
			"ids past_key_values.0.decoder.key past_key_values.0.encoder.key use_cache_branch:flat",
			"logits present.0.decoder.key present.0.encoder.key", "",
		},
		{"x obs", "xn act", ""},
		{"image_in mask", "image_out score", ""},
		{"audio_in state_in sr:int", "audio_out state_out", ""},
		{"joint_state image", "joint_state_out act", ""},
		{"hidden_states mask", "hidden_states_out attention", ""},
		{"obs prev_action", "next_action value", ""},
		{"obs past_obs", "act present_obs", ""},
		{"state action", "next_state reward", ""},
		{"cell_image scale", "cell_image_out score", ""},
		{"obs h c", "act hn cn:wide", ""},
		{"obs h", "act hn:int", ""},
		{"obs h", "act hn:other", ""},
		{"obs h", "act hn:flat", ""},
		{"obs h:open", "act hn", ""},
		{"obs h:open", "act hn:turned", ""},
		{"obs h:text", "act hn:text", ""},
		{"obs h", "act hn h_out", ""},
		{"obs h h0", "act value hn", ""},
		{"x", "x_out y", ""},
		{"x h", "x_out hn", ""},
		{"obs h", "hn", ""},
	} {
		got := ""
		for _, p := range findPairs(&tensor.Signature{Inputs: specs(test.inputs), Outputs: specs(test.outputs)}) {
			got = fmt.Sprintf("%s %s<-%s", got, p.Input, p.Output)
		}
		if strings.TrimSpace(got) != test.want {
			t.Errorf("%s → %s: %q, want %q", test.inputs, test.outputs, got, test.want)
		}
	}
}

// TestKeepFoundPairs: they are kept and logged where no settings say anything, and where they can be.
func TestKeepFoundPairs(t *testing.T) {
	many := &tensor.Signature{Inputs: []tensor.Spec{along(0, "x", tensor.Float32, tensor.Unknown, 4)}}
	many.Outputs = []tensor.Spec{along(0, "y", tensor.Float32, tensor.Unknown, 4)}
	for i := range 10 {
		many.Inputs = append(many.Inputs, along(0, fmt.Sprintf("past_%d", i), tensor.Float32, tensor.Unknown, 2))
		many.Outputs = append(many.Outputs, along(0, fmt.Sprintf("present_%d", i), tensor.Float32, tensor.Unknown, 2))
	}
	vast := many.Clone()
	for i := range vast.Inputs[1:] {
		vast.Inputs[i+1].Shape = tensor.Shape{tensor.Unknown, 1 << 30}
		vast.Outputs[i+1].Shape = tensor.Shape{tensor.Unknown, 1 << 30}
	}
	for name, test := range map[string]struct {
		sig      *tensor.Signature
		settings string
		pipeline *modelrepo.Pipeline
		kept     int
		found    bool
	}{
		"found":        {many, "", nil, 10, true},
		"told":         {many, "state: {pairs: [{input: past_1, output: present_1}]}", nil, 1, false},
		"told no":      {many, "state: none", nil, 0, false},
		"of pipelines": {many, "", &modelrepo.Pipeline{}, 0, false},
		"too large":    {vast, "", nil, 0, false},
	} {
		m, err := modelrepo.ReadManifest("model.yaml", []byte(test.settings))
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		r := &Replica{signature: test.sig, Version: &Version{
			Model: "m", Number: 3, shared: &Shared{Config: Config{Log: slog.New(slog.NewTextHandler(&log, nil))}},
		}}
		err = r.keep(residency.Candidate{Manifest: &m, Version: modelrepo.Version{Pipeline: test.pipeline}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		kept := 0
		if r.state != nil {
			kept = len(r.state.Inputs)
		}
		if kept != test.kept || kept > 0 && (r.state.Found != test.found || r.state.MaxEpisodes != 10_000) {
			t.Errorf("%s: %+v", name, r.state)
		}
		logged := log.String()
		if !test.found && logged != "" || test.found &&
			!strings.Contains(logged, `event=state_found model=m version=3 pairs="past_0 <- present_0, `) ||
			test.found && !strings.Contains(logged, `past_7 <- present_7, and 2 more"`) {
			t.Errorf("%s: logged is %s", name, logged)
		}
	}
}
