package config_test

import (
	"testing"

	"github.com/weftserve/weft/internal/config"
)

func TestDecodePanicsOnTheProgramsMistakes(t *testing.T) {
	for name, into := range map[string]any{
		"no pointer": settings{},
		"no struct":  new(int),
		"unknown type": &struct {
			X chan int `yaml:"x"`
		}{},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: accepted", name)
				}
			}()
			_ = config.Decode("f.yaml", []byte("x: 1"), into)
		}()
	}
}
