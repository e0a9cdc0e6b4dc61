package config_test

import (
	"fmt"

	"github.com/weftserve/weft/internal/config"
)

// settings has a field of each kind that Decode understands.
type settings struct {
	Name    string             `yaml:"name"`
	Count   int                `yaml:"count"`
	Small   int8               `yaml:"small"`
	Share   float64            `yaml:"share"`
	Enabled bool               `yaml:"enabled"`
	Wait    config.Duration    `yaml:"wait"`
	Memory  config.Size        `yaml:"memory"`
	Color   color              `yaml:"color" enum:"red,green"`
	Colors  []color            `yaml:"colors" enum:"red,green"`
	Sizes   []int              `yaml:"sizes,flow"`
	Nested  nested             `yaml:"nested"`
	Section *section           `yaml:"section,omitempty"`
	Places  map[string]section `yaml:"places"`
	Picked  pick               `yaml:"picked" config:"replace"`
	Hidden  int                `yaml:"-"`
	private int                //nolint:unused // it is there to be passed over
}

type nested struct {
	MaxQueue  int      `yaml:"max_queue"`
	BatchSize int      `yaml:"batch_size"`
	Words     []string `yaml:"words"`
}

type section struct {
	X int `yaml:"x"`
	Y int `yaml:"y"`
}

type color string

// pick is written "all" or {first: N}.
type pick struct {
	All   bool `yaml:"-"`
	First int  `yaml:"first"`
	Last  int  `yaml:"last"`
}

func (p *pick) UnmarshalText(text []byte) error {
	if string(text) != "all" {
		return fmt.Errorf("expected all or {first: N}, found %q", text)
	}
	*p = pick{All: true}
	return nil
}

func (p pick) MarshalYAML() (any, error) {
	if p.All {
		return "all", nil
	}
	return map[string]int{"first": p.First, "last": p.Last}, nil
}

func defaults() settings {
	return settings{
		Name: "n", Count: 3, Color: "red", Nested: nested{MaxQueue: 7, BatchSize: 8}, Picked: pick{First: 1},
		Places: map[string]section{"home": {X: 1}}, Sizes: []int{2, 3, 4},
	}
}

// check holds the checks that a caller of Decode adds: ranges, and how values fit each other.
func (s *settings) check() config.Faults {
	var faults config.Faults
	config.Between(&faults, "count", s.Count, 1, 10)
	config.Between(&faults, "share", s.Share, 0, 1)
	config.Between(&faults, "wait", s.Wait, 0, config.Duration(1e9))
	config.Between(&faults, "nested.max_queue", s.Nested.MaxQueue, 1, 100)
	for i, size := range s.Sizes {
		config.Between(&faults, fmt.Sprintf("sizes[%d]", i), size, 1, 64)
	}
	if s.Section != nil && s.Section.X > s.Section.Y {
		faults.Addf("section.x", "%d is above section.y (%d)", s.Section.X, s.Section.Y)
	}
	if s.Color == "green" && s.Memory == 0 {
		faults.Addf("memory", "green needs memory")
	}
	if s.Picked == (pick{}) {
		faults.Addf("picked", "nothing is picked")
	}
	return faults
}
