package routing

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weftserve/weft/runtime/catalog"
)

// golden was computed by a second implementation of the package comment, in Python. It may never change: running fleets
// would disagree during an update, and episodes would move that a restart must not move.
var golden = []struct {
	episode       string
	key           uint64
	slot          string // of stable 60, canary 30, next 10
	third, fourth bool   // whether it is shown to the shadows 3 and 4, which sample a quarter
}{
	{"e", 0x6fafc30287cfa888, "next", false, true},
	{"episode-1", 0x47146f068251d5b5, "next", false, false},
	{"episode-2", 0x8a64940a66231e5f, "stable", false, false},
	{"episode-3", 0xc3df3395bfde20ed, "stable", true, false},
	{"robot-7/2026-11-21", 0xb3f642f13dde6623, "stable", false, false},
	{"6f1c2a34-9a55-4c9f-8f44-0d5a2c1b7e90", 0xdc2fb79aa072ccef, "stable", false, true},
	{"ünïcode", 0xac4226a04f6fb415, "canary", false, false},
	{"a", 0xe1399504982179eb, "canary", false, false},
	{"b", 0x945e5381154226c2, "canary", false, true},
	{"c", 0x02f78aff7a42d18c, "canary", false, false},
	{"episode-4", 0xa6b7898ca63a93f4, "stable", false, false},
}

func TestHashIsWhatItEverWas(t *testing.T) {
	versions := []*catalog.Version{
		{Number: 1, State: catalog.Ready},
		{Number: 3, State: catalog.Ready},
		{Number: 4, State: catalog.Ready},
	}
	table := NewTable(&catalog.Snapshot{Models: catalog.ByName(
		&catalog.Model{Name: "policy", Versions: versions, Traffic: &catalog.Traffic{
			Split: []catalog.Slot{
				{Name: "stable", Version: 1, Weight: 60},
				{Name: "canary", Version: 1, Weight: 30},
				{Name: "next", Version: 1, Weight: 10},
			},
			Shadow: []catalog.Shadow{{Version: 3, Sample: 0.25}, {Version: 4, Sample: 0.25}},
		}})})
	e := table.models.Get("policy")
	for _, want := range golden {
		q := Request{Episode: want.episode}
		key := e.episodeKey(&q)
		if key != want.key {
			t.Errorf("key of %q is %#016x, want %#016x", want.episode, key, want.key)
		}
		if got, _ := e.split.choose("policy", key, nil); got.slot != want.slot {
			t.Errorf("%q goes to %s, want %s", want.episode, got.slot, want.slot)
		}
		shown := map[int64]bool{}
		for _, s := range e.shadowsOf(&q, 1) {
			shown[s.Version] = true
		}
		if shown[3] != want.third || shown[4] != want.fourth {
			t.Errorf("%q is shown to %v, want 3 %v, 4 %v", want.episode, shown, want.third, want.fourth)
		}
	}
}

func TestLn(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	inputs := []float64{
		uniform(0), uniform(math.MaxUint64), 0.5, math.Sqrt2 / 2, math.Nextafter(math.Sqrt2/2, 0),
		math.Nextafter(0.5, 0),
	}
	for range 100_000 {
		inputs = append(inputs, uniform(random.Uint64()), uniform(random.Uint64()>>random.IntN(52)),
			uniform(^(random.Uint64() >> random.IntN(52))))
	}
	for _, u := range inputs {
		if !(u > 0 && u < 1) {
			t.Fatalf("uniform gave %v", u)
		}
		if got, want := ln(u), math.Log(u); !(math.Abs(got-want) <= 1e-15*math.Abs(want)) {
			t.Errorf("ln(%v) = %v, want %v", u, got, want)
		}
	}
	// The sum of their bits, for platforms that fuse: computed in Python, which does not.
	sum := uint64(0)
	for i := range uint64(100_000) {
		sum += math.Float64bits(ln(uniform(mix(i))))
	}
	if want := uint64(0xc3fe98477c296080); sum != want {
		t.Errorf("the bits of the logarithms add up to %#x, want %#x", sum, want)
	}
}
