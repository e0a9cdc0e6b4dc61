package modelrepo

import (
	"fmt"
	"strconv"
)

// Replicas is the number of devices of a version: 1 or more, or AutoReplicas.
type Replicas int

// AutoReplicas is written auto: as many as the load needs.
const AutoReplicas Replicas = -1

// maxReplicas keeps a number from being a typing error.
const maxReplicas = 64

// UnmarshalText reads a number of at least 1, or auto.
func (r *Replicas) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*r = AutoReplicas
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 || n > maxReplicas {
		return fmt.Errorf("expected a number from 1 to %d, or auto, found %q", maxReplicas, text)
	}
	*r = Replicas(n)
	return nil
}

// MarshalYAML gives the form that was read.
func (r Replicas) MarshalYAML() (any, error) {
	if r == AutoReplicas {
		return "auto", nil
	}
	return int(r), nil
}
