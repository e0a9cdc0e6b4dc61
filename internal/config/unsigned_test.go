package config_test

import (
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/config"
)

func TestUnsigned(t *testing.T) {
	var s struct {
		Seed uint64 `yaml:"seed"`
	}
	if err := config.Decode("f.yaml", []byte("seed: 9223372036854775807"), &s); err != nil || s.Seed != 1<<63-1 {
		t.Errorf("%d, error %v", s.Seed, err)
	}
	for _, text := range []string{"-1", "1.5", "one", "9223372036854775808"} {
		err := config.Decode("f.yaml", []byte("seed: "+text), &s)
		if err == nil || !strings.Contains(err.Error(), "expected a whole number from 0 to 9223372036854775807, found") {
			t.Errorf("%s: error %v", text, err)
		}
	}
}
