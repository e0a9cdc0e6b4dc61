package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes, written "64MiB", "1GiB" or as a plain number in files and flags.
type Size int64

// Units of Size; all are powers of two.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
)

// sizeUnits are in the order in which they are tried: every name ends in B, so that B comes last.
var sizeUnits = []struct {
	name  string
	bytes Size
}{{"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}, {"B", 1}}

// UnmarshalText reads a whole number of bytes, KiB, MiB or GiB.
func (s *Size) UnmarshalText(text []byte) error {
	number, unit := string(text), Size(1)
	for _, u := range sizeUnits {
		if digits, ok := strings.CutSuffix(number, u.name); ok {
			number, unit = strings.TrimSpace(digits), u.bytes
			break
		}
	}
	// 63 bits, so that the number is never negative.
	n, err := strconv.ParseUint(number, 10, 63)
	if err != nil || Size(n) > math.MaxInt64/unit {
		return fmt.Errorf(`expected a whole number of bytes, such as "64MiB", "1GiB" or 4096 (units B, KiB, MiB, GiB), found %q`, text)
	}
	*s = Size(n) * unit
	return nil
}

// MarshalText is the inverse of UnmarshalText.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String returns the size in the largest unit that divides it, so that it reads back as the same number.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && s%u.bytes == 0 {
			return strconv.FormatInt(int64(s/u.bytes), 10) + u.name
		}
	}
	return "0B"
}

// Bound is a Size that may be "auto": the server then chooses it.
type Bound Size

// AutoBound is "auto". No Size is negative.
const AutoBound Bound = -1

// UnmarshalText reads "auto" or a Size.
func (b *Bound) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*b = AutoBound
		return nil
	}
	if err := (*Size)(b).UnmarshalText(text); err != nil {
		return fmt.Errorf("%w, or auto", err)
	}
	return nil
}

// MarshalText is the inverse of UnmarshalText.
func (b Bound) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// String gives the bound as UnmarshalText reads it.
func (b Bound) String() string {
	if b == AutoBound {
		return "auto"
	}
	return Size(b).String()
}

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

// String returns the duration as UnmarshalText reads it, without zero parts and in ASCII: "1m" and not "1m0s", "5us"
// and not "5µs".
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

// Period is a Duration that may be "auto": the server then chooses it.
type Period Duration

// AutoPeriod is "auto". No Duration is negative.
const AutoPeriod Period = -1

// UnmarshalText reads "auto" or a Duration.
func (p *Period) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*p = AutoPeriod
		return nil
	}
	if err := (*Duration)(p).UnmarshalText(text); err != nil {
		return fmt.Errorf("%w, or auto", err)
	}
	return nil
}

// MarshalText is the inverse of UnmarshalText.
func (p Period) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// String gives the period as UnmarshalText reads it.
func (p Period) String() string {
	if p == AutoPeriod {
		return "auto"
	}
	return Duration(p).String()
}
