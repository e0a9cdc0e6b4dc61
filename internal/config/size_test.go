package config_test

import (
	"testing"
	"time"

	"github.com/weftserve/weft/internal/config"
)

func TestSize(t *testing.T) {
	for _, tt := range []struct {
		text  string
		want  config.Size
		print string
	}{
		{"0", 0, "0B"},
		{"100", 100, "100B"},
		{"100B", 100, "100B"},
		{"4096", 4 * config.KiB, "4KiB"},
		{"64MiB", 64 << 20, "64MiB"},
		{"64 MiB", 64 << 20, "64MiB"},
		{"1GiB", 1 << 30, "1GiB"},
		{"1536MiB", 1536 << 20, "1536MiB"},
		{"8589934591GiB", 8589934591 << 30, "8589934591GiB"},
	} {
		var s config.Size
		if err := s.UnmarshalText([]byte(tt.text)); err != nil {
			t.Errorf("%s: %v", tt.text, err)
		}
		if s != tt.want || s.String() != tt.print {
			t.Errorf("%s is %d, printed %s; want %d, printed %s", tt.text, int64(s), s, int64(tt.want), tt.print)
		}
	}
	for _, text := range []string{"", "-1", "1.5GiB", "64MB", "64m", "GiB", "8589934592GiB", "9223372036854775808"} {
		s := config.Size(7)
		if err := s.UnmarshalText([]byte(text)); err == nil || s != 7 {
			t.Errorf("%q: error %v, size %d; want an error and no change", text, err, int64(s))
		}
	}
}

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

func TestPeriod(t *testing.T) {
	for text, want := range map[string]config.Period{
		"auto": config.AutoPeriod, "0s": 0, "5s": config.Period(5 * time.Second),
	} {
		var p config.Period
		if err := p.UnmarshalText([]byte(text)); err != nil || p != want || p.String() != text {
			t.Errorf("%s is %d, printed %s; %v", text, int64(p), p, err)
		}
	}
	for _, text := range []string{"", "-1s", "5", "Auto"} {
		p := config.Period(7)
		if err := p.UnmarshalText([]byte(text)); err == nil || p != 7 {
			t.Errorf("%q: error %v, period %d; want an error and no change", text, err, int64(p))
		}
	}
}
