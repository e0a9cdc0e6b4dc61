package config

import (
	"fmt"
	"strings"
	"time"
)

// Duration is a time.Duration that is written "500us", "5ms" or "1m30s" in files and flags; never negative.
type Duration time.Duration

// UnmarshalText reads a duration with its unit; a bare 0 needs none.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err == nil && parsed < 0 {
		return fmt.Errorf("expected a duration that is not negative, found %q", text)
	}
	if err != nil {
		return fmt.Errorf(`expected a duration with its unit, such as "500us", "5ms", "1s" or "2m", found %q`, text)
	}
	*d = Duration(parsed)
	return nil
}

// MarshalText is the inverse of UnmarshalText.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// String gives the duration without zero parts: "1m", not "1m0s".
func (d Duration) String() string {
	s := time.Duration(d).String()
	s = strings.Replace(s, "µs", "us", 1)
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
