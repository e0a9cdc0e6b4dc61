package catalog

import "testing"

func TestLookUp(t *testing.T) {
	ready := func(n int64, s State) *Version { return &Version{Model: "b", Number: n, State: s} }
	b := &Model{Name: "b", Versions: []*Version{ready(1, Ready), ready(3, Ready), ready(20, Loading)}}
	s := &Snapshot{Models: ByName(&Model{Name: "a"}, b, &Model{Name: "c"})}
	for name, want := range map[string]*Model{"b": b, "": nil, "bb": nil, "../b": nil, "z": nil} {
		if got := s.Model(name); got != want {
			t.Errorf("Model(%q) = %v, want %v", name, got, want)
		}
	}
	for number, want := range map[int64]*Version{
		1: b.Versions[0], 3: b.Versions[1], 20: b.Versions[2], 2: nil, 0: nil,
		21: nil,
	} {
		if got := b.Version(number); got != want {
			t.Errorf("Version(%d) = %v, want %v", number, got, want)
		}
	}
	if got := b.Newest(); got != b.Versions[1] {
		t.Errorf("Newest() = %v, want version 3: 20 is not ready", got)
	}
	if got := s.Model("a").Newest(); got != nil {
		t.Errorf("Newest() of a model without versions = %v", got)
	}
}
