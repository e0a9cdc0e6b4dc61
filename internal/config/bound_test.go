package config_test

import (
	"testing"

	"github.com/weftserve/weft/internal/config"
)

func TestBound(t *testing.T) {
	for text, want := range map[string]config.Bound{
		"auto": config.AutoBound, "0B": 0, "2GiB": config.Bound(2 * config.GiB),
	} {
		var b config.Bound
		if err := b.UnmarshalText([]byte(text)); err != nil || b != want || b.String() != text {
			t.Errorf("%s is %d, printed %s; %v", text, int64(b), b, err)
		}
	}
	for _, text := range []string{"", "-1", "-1B", "Auto"} {
		b := config.Bound(7)
		if err := b.UnmarshalText([]byte(text)); err == nil || b != 7 {
			t.Errorf("%q: error %v, bound %d; want an error and no change", text, err, int64(b))
		}
	}
}
