package config

import "fmt"

// Bound is a Size that the server may choose by itself: "auto".
type Bound Size

// AutoBound is auto.
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
