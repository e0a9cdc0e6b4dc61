package config

import (
	"fmt"

	"github.com/goccy/go-yaml"
)

// Print gives settings as YAML that Decode reads back to the same values.
func Print(settings any) (string, error) {
	text, err := yaml.MarshalWithOptions(settings, yaml.IndentSequence(true))
	if err != nil {
		return "", fmt.Errorf("config: print %T: %w", settings, err)
	}
	return string(text), nil
}
