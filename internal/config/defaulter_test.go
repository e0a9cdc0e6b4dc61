package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/config"
)

// share has a default that is not zero, wherever it is an element.
type share struct {
	Part  float64 `yaml:"part"`
	Times int     `yaml:"times"`
}

func (s *share) SetDefaults() { s.Part = 1 }

func TestElementsBeginWithTheirDefaults(t *testing.T) {
	type shares struct {
		List  []share          `yaml:"list"`
		Named map[string]share `yaml:"named"`
		Field share            `yaml:"field"`
	}
	const source = `
list: [{times: 2}, {part: 0}, {}]
named: {a: {times: 3}, b: {part: 0.5}}
field: {times: 4} # the program has set it, or not, before
`
	want := shares{
		List:  []share{{Part: 1, Times: 2}, {Part: 0}, {Part: 1}},
		Named: map[string]share{"a": {Part: 1, Times: 3}, "b": {Part: 0.5}},
		Field: share{Part: 7, Times: 4},
	}
	got := shares{Field: share{Part: 7}}
	if err := config.Decode("f.yaml", []byte(source), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decoded (-want +got):\n%s", diff)
	}
}
