package main

import (
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kong"

	"github.com/weftserve/weft/internal/config"
)

// loadSettings is a kong.ConfigurationLoader that takes the server's flags from a settings file. The error is
// config.Faults if the file could be read but is wrong. kong itself would let a file win over an environment variable;
// here a variable that is set wins.
func loadSettings(r io.Reader) (kong.Resolver, error) {
	name := "settings"
	if named, ok := r.(interface{ Name() string }); ok {
		name = named.Name()
	}
	// One byte more than is accepted, so that a longer file is refused and not cut off.
	data, err := io.ReadAll(io.LimitReader(r, int64(config.MaxSize)+1))
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	values, err := config.ServerFile(name, data)
	if err != nil {
		return nil, err
	}
	var resolve kong.ResolverFunc = func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		for _, variable := range flag.Envs {
			if _, isSet := os.LookupEnv(variable); isSet {
				return nil, nil
			}
		}
		// nil says that the file does not set the flag.
		return values[flag.Name], nil
	}
	return resolve, nil
}
