package hostile

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/types/dynamicpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// TestSeedsRepeat what was made of them before, so that a failure can be looked at.
func TestSeedsRepeat(t *testing.T) {
	made := func(seed uint64) (all [][]byte) {
		rng := rand.New(rand.NewPCG(seed, 0))
		k := Maker{RNG: rng, Words: []string{"policy"}, Nasty: 0.5}
		for _, m := range Methods("weft.v1.PredictionService", "weft.v1.AdminService") {
			data := Encode(k.Message(m.Input))
			all = append(all, data, Mutated(rng, data))
		}
		return all
	}
	first, again, other := made(1), made(1), made(2)
	same := 0
	for i := range first {
		if !bytes.Equal(first[i], again[i]) {
			t.Errorf("message %d differs", i)
		}
		if bytes.Equal(first[i], other[i]) {
			same++
		}
	}
	if same > len(first)/2 {
		t.Errorf("%d of %d messages of another seed are the same", same, len(first))
	}
}

// TestAroundReachesEveryText: keys and values of maps, elements of lists, bytes, and texts of nested messages.
func TestAroundReachesEveryText(t *testing.T) {
	d := (&weftv1.PredictStreamRequest{}).ProtoReflect().Descriptor()
	paths := Texts(d)
	names := map[string]bool{}
	for _, path := range paths {
		var elements []string
		for _, f := range path {
			elements = append(elements, string(f.Name()))
		}
		names[strings.Join(elements, ".")] = true
		m := dynamicpb.NewMessage(d)
		Around(m, path, "look here")
		if !bytes.Contains(Encode(m), []byte("look here")) {
			t.Errorf("%v: %v", elements, m)
		}
	}
	for _, want := range []string{
		"request.model.name", "request.model.label", "request.inputs.key", "request.inputs.value.raw",
		"request.inputs.value.string_values", "request.outputs", "request.episode_id",
	} {
		if !names[want] {
			t.Errorf("no path %s in %v", want, names)
		}
	}
}

// TestTextIsSpoiledWhole: texts can be encoded, and become what is no UTF-8 with the same length.
func TestTextIsSpoiledWhole(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	spoiled, long := 0, 0
	for range 2000 {
		text := Text(rng)
		if !utf8.ValidString(text) {
			t.Errorf("%q", text)
		}
		is := Spoil([]byte(text))
		if len(is) != len(text) {
			t.Errorf("%d bytes of %d", len(is), len(text))
		}
		if !utf8.Valid(is) {
			spoiled++
		}
		if len(text) > 64<<10 {
			long++
		}
	}
	if spoiled == 0 || long == 0 {
		t.Errorf("%d are not UTF-8, %d are long", spoiled, long)
	}
}
