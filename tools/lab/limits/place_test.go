package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlaces(t *testing.T) {
	for want, cpus := range map[string][]int{
		"shared": {3}, "1-core, shared": {0, 1}, "1-core, 2-cores, shared": {0, 1, 2, 3, 4},
	} {
		if got := namesOf(placesOn(cpus)); got != want {
			t.Errorf("with processors %v: %s, want %s", cpus, got, want)
		}
	}
	for _, p := range placesOn([]int{2, 4, 6, 8}) {
		used := map[int]int{}
		for _, cpu := range append(append([]int{}, p.server...), p.client...) {
			used[cpu]++
		}
		want := map[int]int{2: 1, 4: 1, 6: 1, 8: 1}
		if p.name == sharedPlace {
			want = map[int]int{2: 2, 4: 2, 6: 2, 8: 2}
		}
		if diff := cmp.Diff(want, used); diff != "" {
			t.Errorf("%s: %s", p.name, diff)
		}
	}
}
