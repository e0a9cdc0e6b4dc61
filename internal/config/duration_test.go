package config_test

import (
	"testing"
	"time"

	"github.com/weftserve/weft/internal/config"
)

func TestDuration(t *testing.T) {
	for _, tt := range []struct {
		text  string
		want  time.Duration
		print string
	}{
		{"0", 0, "0s"},
		{"0s", 0, "0s"},
		{"500us", 500 * time.Microsecond, "500us"},
		{"500µs", 500 * time.Microsecond, "500us"},
		{"1.5s", 1500 * time.Millisecond, "1.5s"},
		{"60s", time.Minute, "1m"},
		{"1h", time.Hour, "1h"},
		{"1h0m10s", time.Hour + 10*time.Second, "1h0m10s"},
		{"10m", 10 * time.Minute, "10m"},
		{"100m30s", 100*time.Minute + 30*time.Second, "1h40m30s"},
	} {
		var d config.Duration
		if err := d.UnmarshalText([]byte(tt.text)); err != nil {
			t.Errorf("%s: %v", tt.text, err)
		}
		if time.Duration(d) != tt.want || d.String() != tt.print {
			t.Errorf("%s is %v, printed %s; want %v, printed %s", tt.text, time.Duration(d), d, tt.want, tt.print)
		}
	}
	for _, text := range []string{"", "5", "-1s", "1d", "soon", "5 ms"} {
		d := config.Duration(7)
		if err := d.UnmarshalText([]byte(text)); err == nil || d != 7 {
			t.Errorf("%q: error %v, duration %v; want an error and no change", text, err, d)
		}
	}
}
