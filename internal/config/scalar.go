package config

import (
	"regexp"
	"strconv"
)

// Scalar is any single value, as it was written: a number, true or false, or text. Its reader decides its meaning,
// where that depends on more than the file.
type Scalar string

// UnmarshalText takes any text.
func (s *Scalar) UnmarshalText(text []byte) error {
	*s = Scalar(text)
	return nil
}

// plainScalar matches text that reads the same without quotes.
var plainScalar = regexp.MustCompile(`^([-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan|true|false)$`)

// MarshalYAML is the inverse of reading.
func (s Scalar) MarshalYAML() ([]byte, error) {
	if plainScalar.MatchString(string(s)) {
		return []byte(s), nil
	}
	return []byte(strconv.Quote(string(s))), nil // its escapes are YAML's
}
