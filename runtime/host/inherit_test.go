package host

import "testing"

// TestCostsAreInheritedFromTheVersionBefore: of several resident versions, the nearest before; without one, the nearest after.
func TestCostsAreInheritedFromTheVersionBefore(t *testing.T) {
	h := New(Config{})
	resident := func(model string, number int64, device string) {
		v := &version{model: model, number: number}
		v.change([]*replica{{version: v, device: h.fleet.get(device)}})
		if h.models[model] == nil {
			h.models[model] = h.recalled(model)
		}
		h.models[model].versions[number] = &entry{resident: v}
	}
	resident("m", 2, "cpu")
	resident("m", 4, "cpu")
	resident("m", 5, "cuda:0")
	resident("m", 9, "cpu")
	resident("other", 6, "cpu")
	for number, want := range map[int64]int64{1: 2, 3: 2, 7: 4, 9: 4, 12: 9} {
		got := h.near("m", number, h.fleet.get("cpu"))
		if got == nil || got.number != want {
			t.Errorf("version %d inherits from %+v, want version %d", number, got, want)
		}
	}
	if got := h.near("m", 6, nil); got == nil || got.number != 5 {
		t.Errorf("version 6 is to be near %+v, want version 5, wherever that is", got)
	}
	if got := h.near("new", 1, h.fleet.get("cpu")); got != nil {
		t.Errorf("a new model inherits from %s/%d", got.model, got.number)
	}
}
