package catalog

import (
	"errors"
	"testing"
)

func TestInUseErrorTellsByWhom(t *testing.T) {
	for want, by := range map[string][]string{
		`label "stable" leads requests to it; change that first`: {`label "stable"`},
		`label "stable" and slot "baseline" of the traffic lead requests to it; change that first`: {
			`label "stable"`,
			`slot "baseline" of the traffic`,
		},
	} {
		if got := (&InUseError{Model: "m", Version: 2, By: by}).Error(); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// TestPlacementErrorTellsWhatToDo, about obstacles only.
func TestPlacementErrorTellsWhatToDo(t *testing.T) {
	full := FullDevice{Name: "cuda:0", Free: 1 << 19}
	failed := FullDevice{Name: "cuda:1", Cause: errors.New("out of memory")}
	lost := FullDevice{Name: "cuda:2", Cause: errors.New("it is lost: bus error"), Lost: true}
	here := FullDevice{Name: "cuda:3", Cause: errors.New("there already"), Resident: true}
	also := FullDevice{Name: "cuda:4", Cause: errors.New("there already"), Resident: true}
	const (
		none    = `no device can take model "m" version 2, which needs about 1.0 MiB: `
		room    = "; unload a model there, bound what others take by onnx.device_memory_limit, serve a smaller model, "
		anew    = "start the server anew to have the lost devices back, "
		fewer   = "set fewer replicas in the model's model.yaml, "
		device  = "or name another device in --devices"
		further = `there is no further device for model "m" version 2, which is on `
		more    = " already; name more of them in --devices, or set replicas to "
	)
	for want, devices := range map[string][]FullDevice{
		none + "cuda:0 has 0.5 MiB free" + room + device:                                        {full},
		none + "cuda:1: out of memory, cuda:0 has 0.5 MiB free" + room + device:                 {failed, full},
		none + "cuda:2: it is lost: bus error; " + anew + device:                                {lost},
		none + "cuda:3: there already, cuda:0 has 0.5 MiB free" + room + fewer + device:         {here, full},
		none + "cuda:0 has 0.5 MiB free, cuda:2: it is lost: bus error" + room + anew + device:  {full, lost},
		none + "cuda:2: it is lost: bus error, cuda:3: there already; " + anew + fewer + device: {lost, here},
		further + "cpu already: one replica serves with all processors; set replicas to 1 in the model's model.yaml " +
			"(--devices cpu:N runs N batches at a time)": {{Name: "cpu", Resident: true}},
		further + "cuda:3" + more + "1 in the model's model.yaml":            {here},
		further + "cuda:3 and cuda:4" + more + "2 in the model's model.yaml": {here, also},
	} {
		if got := (&PlacementError{Model: "m", Version: 2, Need: 1 << 20, Devices: devices}).Error(); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}
