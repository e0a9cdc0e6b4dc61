package modelrepo

import (
	"fmt"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/proto/gen/inference"
)

// sequences maps the state that is kept between the requests of a sequence. Slots have no meaning here: any number of
// sequences share a batch.
func (t *tritonConfig) sequences() {
	const at = "sequence_batching"
	b, s := t.c.GetSequenceBatching(), &State{}
	s.SetDefaults()
	s.Idle = config.Duration(time.Second) // as there
	if n := b.GetMaxSequenceIdleMicroseconds(); n > 0 {
		s.Idle = t.duration(at+".max_sequence_idle_microseconds", n, 24*time.Hour)
	}
	t.told[at+".max_sequence_idle_microseconds"] = true
	t.told[at+".oldest.max_candidate_sequences"] = true // further sequences wait for a slot there
	for i, state := range b.GetState() {
		path := fmt.Sprintf("%s.state[%d]", at, i)
		s.Pairs = append(s.Pairs, StatePair{state.GetInputName(), state.GetOutputName()})
		for _, field := range []string{".input_name", ".output_name", ".data_type", ".dims"} { // the model says the last two
			t.told[path+field] = true
		}
		for k, initial := range state.GetInitialState() {
			if initial.GetDataFile() != "" {
				t.fault(fmt.Sprintf("%s.initial_state[%d].data_file", path, k), "Weft reads no such file; expected one row as "+
					"JSON beside model.yaml, and state: {pairs: [...], initial: {%s: FILE.json}} there instead of this field",
					state.GetInputName())
			}
			for _, field := range []string{".name", ".data_type", ".dims", ".zero_data"} {
				t.told[fmt.Sprintf("%s.initial_state[%d]%s", path, k, field)] = true
			}
		}
	}
	for i, input := range b.GetControlInput() {
		for k, control := range input.GetControl() {
			path := fmt.Sprintf("%s.control_input[%d]", at, i)
			for _, field := range controlFields {
				t.told[path+field], t.told[fmt.Sprintf("%s.control[%d]%s", path, k, field)] = true, true
			}
			var name *string
			switch control.GetKind() {
			case inference.ModelSequenceBatching_Control_CONTROL_SEQUENCE_END:
				name = &s.End
			case inference.ModelSequenceBatching_Control_CONTROL_SEQUENCE_READY:
				name = &s.Ready
			case inference.ModelSequenceBatching_Control_CONTROL_SEQUENCE_CORRID:
				name = &s.ID
			default:
				name = &s.Start
			}
			if *name != "" {
				t.fault(fmt.Sprintf("%s.control[%d].kind", path, k), "%s is %v already; expected one input of each kind", *name,
					control.GetKind())
				continue
			}
			*name = input.GetName()
			for _, pair := range [][]float32{
				control.GetFp32FalseTrue(), floatsOf(control.GetInt32FalseTrue()), boolsOf(control.GetBoolFalseTrue()),
			} {
				if len(pair) == 2 && (pair[0] != 0 || pair[1] != 1) {
					t.fault(fmt.Sprintf("%s.control[%d]", path, k), "Weft says no with 0 and yes with 1; expected [0, 1]")
				}
			}
		}
	}
	s.None = len(s.Pairs) == 0 && len(s.Controls()) == 0 // a sequence that has no state here has none
	t.m.State = s
}

// controlFields are those of a control input and of its control.
var controlFields = []string{
	".name", ".kind", ".int32_false_true", ".fp32_false_true", ".bool_false_true", ".data_type",
}

func boolsOf(all []bool) (out []float32) {
	for _, is := range all {
		out = append(out, map[bool]float32{true: 1}[is])
	}
	return out
}

func floatsOf(all []int32) (out []float32) {
	for _, n := range all {
		out = append(out, float32(n))
	}
	return out
}
