package serving

import (
	"fmt"
	"strings"
	"testing"

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
		{"obs prev_x prev_y", "act next_x next_y", "prev_x<-next_x prev_y<-next_y"},
		// what leaves doubt
		{"obs h c", "act value", ""},
		{"ids past_0 past_1", "logits present_0", ""},
		{"ids past_key_values.0.key past_key_values.0.value", "logits present.0.key", ""},
		{"obs prev_x prev_y", "act next_x", ""},
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
		for _, p := range FindPairs(&tensor.Signature{Inputs: specs(test.inputs), Outputs: specs(test.outputs)}) {
			got = fmt.Sprintf("%s %s<-%s", got, p.Input, p.Output)
		}
		if strings.TrimSpace(got) != test.want {
			t.Errorf("%s → %s: %q, want %q", test.inputs, test.outputs, got, test.want)
		}
	}
}
