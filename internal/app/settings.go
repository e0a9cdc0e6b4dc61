package app

import (
	"errors"

	"github.com/alecthomas/kong"

	"github.com/weftserve/weft/internal/config"
)

// Settings are the flags of every command that reads repositories.
type Settings struct {
	Repositories []string        `arg:"" optional:"" name:"repository" help:"Directory of <model>/<version>/model.onnx."`
	Config       kong.ConfigFlag `placeholder:"FILE" help:"Read settings from this YAML file. Its keys have the names of the flags; a flag wins over its key."`
	config.Server
}

// Validate refuses a command line that names no models; kong calls it.
func (s *Settings) Validate() error {
	if len(s.Repositories) == 0 && s.ModelConfigFile == "" {
		return errors.New(`expected "<repository> ...", or --model-config-file`)
	}
	return nil
}

// Check returns everything that is wrong with the settings together, as config.Faults. They are named as flags,
// wherever they came from.
func (s *Settings) Check() error {
	faults := s.Server.Check()
	if wrong := misplacedState(s.StateDir, s.Repositories); wrong != "" {
		faults.Addf("state-dir", "%s", wrong)
	}
	for i := range faults {
		faults[i].Key = "--" + faults[i].Key
	}
	return faults.Err()
}
