package roster

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/weftest"
)

func named(names ...string) (all []Replica) {
	for _, name := range names {
		all = append(all, Replica{Name: name, Memory: 100})
	}
	return all
}

// on returns where a model is.
func on(t *Table, model string) []string { return t.Names(t.Of(model)) }

func TestPlaceIsTheSameForEverybody(t *testing.T) {
	replicas := named("a", "b", "c", "d")
	var models []Model
	for i := range 30 {
		models = append(models, Model{Name: strings.Repeat("m", i+1), Size: int64(i%4) * 3, Copies: 1 + i%3})
	}
	models[7].Needs = []string{"m", "mm"}
	want := Place(replicas, models)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		rng.Shuffle(len(replicas), func(i, j int) { replicas[i], replicas[j] = replicas[j], replicas[i] })
		rng.Shuffle(len(models), func(i, j int) { models[i], models[j] = models[j], models[i] })
		if got := Place(replicas, models); !reflect.DeepEqual(got, want) {
			t.Fatalf("in another order the table is another: %+v, not %+v", got, want)
		}
	}
}

func TestPlace(t *testing.T) {
	for _, c := range []struct {
		name     string
		replicas []Replica
		models   []Model
		copies   map[string]int
	}{
		{"as many copies as wanted", named("a", "b", "c"), []Model{{Name: "m", Size: 1, Copies: 2}}, map[string]int{"m": 2}},
		{"on each replica", named("a", "b"), []Model{{Name: "m", Size: 1, Copies: 9}}, map[string]int{"m": 2}},
		{"not twice on one", named("a"), []Model{{Name: "m", Size: 1, Copies: 2}}, map[string]int{"m": 1}},
		{"too large", named("a", "b"), []Model{{Name: "m", Size: 101, Copies: 2}}, map[string]int{"m": 0}},
		{
			"each one before any two", named("a"),
			[]Model{{Name: "small", Size: 40, Copies: 1}, {Name: "large", Size: 60, Copies: 1}},
			map[string]int{"small": 1, "large": 1},
		},
		{
			"second copies of the small ones", named("a", "b"),
			[]Model{
				{Name: "small", Size: 40, Copies: 2}, {Name: "large", Size: 60, Copies: 2}, {Name: "vast", Size: 60, Copies: 1},
			},
			map[string]int{"small": 2, "large": 1, "vast": 1},
		},
		{
			"no bound",
			[]Replica{{Name: "a"}},
			[]Model{{Name: "m", Size: 1 << 40, Copies: 1}},
			map[string]int{"m": 1},
		},
	} {
		table := Place(c.replicas, c.models)
		got := map[string]int{}
		for _, m := range table.Models {
			got[m.Name] = len(m.On)
		}
		if !reflect.DeepEqual(got, c.copies) {
			t.Errorf("%s: copies %v, expected %v", c.name, got, c.copies)
		}
		for r := range table.Replicas {
			if room, bounded := table.Room(r); bounded && room < 0 {
				t.Errorf("%s: %d bytes of room on %s", c.name, room, table.Replicas[r].Name)
			}
		}
	}
}

// TestPipelinesBringTheirSteps: each is where a pipeline is that needs it, and takes its memory once.
func TestPipelinesBringTheirSteps(t *testing.T) {
	table := Place(named("a", "b", "c", "d", "e"), []Model{
		{Name: "see", Size: 10, Copies: 1},
		{Name: "act", Size: 20, Copies: 3},
		{Name: "walk", Copies: 2, Needs: []string{"see", "act"}},
		{Name: "grip", Copies: 2, Needs: []string{"see", "see"}},
	})
	for _, pipeline := range []string{"walk", "grip"} {
		if len(on(table, pipeline)) != 2 {
			t.Errorf("%s is on %v", pipeline, on(table, pipeline))
		}
		for _, replica := range on(table, pipeline) {
			if !slices.Contains(on(table, "see"), replica) {
				t.Errorf("%s is on %s without its step", pipeline, replica)
			}
		}
	}
	if len(on(table, "act")) != 3 {
		t.Errorf("act is on %v, expected the two of walk and one more", on(table, "act"))
	}
	var used int64
	for _, bytes := range table.Used {
		used += bytes
	}
	if want := int64(10*len(on(table, "see")) + 20*3); used != want {
		t.Errorf("%d bytes are used, expected %d", used, want)
	}
}

func TestRead(t *testing.T) {
	t.Setenv("WEFT_TEST_ROSTER", "weft-0, weft-1")
	t.Setenv("WEFT_TEST_TWICE", "weft-0,weft-0,")
	write := func(text string) string { return weftest.WriteFile(t, t.TempDir(), "roster.yaml", []byte(text)) }
	for _, c := range []struct {
		from string
		want []Replica
		says string
	}{
		{"WEFT_TEST_ROSTER", []Replica{{Name: "weft-0", Memory: 7}, {Name: "weft-1", Memory: 7}}, ""},
		{
			write("replicas: [{name: a, memory: 1KiB}, {name: b, address: \"10.0.0.1:9000\"}]"),
			[]Replica{{Name: "a", Memory: 1024}, {Name: "b", Memory: 7, Address: "10.0.0.1:9000"}},
			"",
		},
		{"WEFT_TEST_TWICE", nil, "weft-0 is on the roster already"},
		{"WEFT_TEST_TWICE", nil, `found ""`},
		{"WEFT_TEST_NONE", nil, "no environment variable is called so"},
		{write("replicas: []"), nil, "expected 1 to 1000"},
		{write("replicas: [{name: a, memroy: 1KiB}]"), nil, "memroy"},
		{write("replicas: [{name: a, address: here}]"), nil, "expected HOST:PORT"},
		{write("replicas: [{name: a, address: \"here:grpc\"}]"), nil, "expected HOST:PORT"},
		{write("replicas: [{name: a, address: \"here:65536\"}]"), nil, "expected HOST:PORT"},
	} {
		got, err := Read(c.from, 7)
		if c.says == "" && (err != nil || !reflect.DeepEqual(got, c.want)) {
			t.Errorf("%s: %+v, %v; expected %+v", c.from, got, err, c.want)
		}
		if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v; expected words of %q", c.from, err, c.says)
		}
	}
}
